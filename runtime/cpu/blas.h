#pragma once
// OpenBLAS, loaded when the first matrix product is prepared.
#include <string>

#include "runtime/plan.h"

namespace moxie {

/// out = alpha * left * right, row-major, at these addresses. Throws DeviceError if no BLAS can be loaded.
void gemm(DType dtype, const ProductCall& call, double alpha, const void* left, const void* right, void* out);
/// Loads the library and sets its threads.
void prepare_blas(int threads);
/// The processor that the library's kernels are for, as it names it: "SkylakeX"; empty if it does not say.
std::string blas_kernels();

}  // namespace moxie
