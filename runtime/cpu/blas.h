#pragma once
// OpenBLAS, loaded when the first matrix product is prepared.
#include <string>

#include "runtime/plan.h"

namespace moxie {

/// out = alpha * left * right, row-major, at these addresses, with that many threads; 0: as many as the library is set
/// to. Throws DeviceError if no BLAS can be loaded.
void gemm(DType dtype, const ProductCall& call, double alpha, const void* left, const void* right, void* out,
          int threads = 0);
/// Loads the library, so that a run does not have to.
void prepare_blas();
/// The processor that the library's kernels are for, as it names it: "SkylakeX"; empty if it does not say.
std::string blas_kernels();

}  // namespace moxie
