#pragma once
// OpenBLAS, loaded when the first matrix product is prepared.
#include <string>

#include "runtime/cpu/thread_pool.h"
#include "runtime/product_call.h"

namespace moxie {

/// out = alpha * left * right for the whole batch, of tensors at these addresses. The tiles of the products are
/// computed on the threads of the pool, each by the library on one thread: the same bits for any number of threads.
/// Throws DeviceError if no BLAS can be loaded.
void gemm(ThreadPool& pool, DType dtype, const ProductCall& call, double alpha, const void* left, const void* right,
          void* out);
/// Loads the library, so that a run does not have to.
void prepare_blas();
/// The processor that the library's kernels are for, as it names it: "SkylakeX"; empty if it does not say.
std::string blas_kernels();

}  // namespace moxie
