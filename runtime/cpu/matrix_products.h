#pragma once
// Matrix products on the CPU: tiles of them on the threads of a pool, each by a library on one thread.
#include "runtime/cpu/thread_pool.h"
#include "runtime/product_call.h"

namespace moxie {

/// Loads the libraries that compute this product, so that a run does not have to. Throws DeviceError if there is none.
void prepare_product(DType dtype, const ProductCall& call);

/// out = alpha * left * right for the whole batch, of tensors at these addresses, or that is added to `out`. How
/// products are split into tiles, and which library computes one, follows from the extents alone: the same bits for any
/// number of threads. Throws DeviceError if no library can be loaded.
void gemm(ThreadPool& pool, DType dtype, const ProductCall& call, double alpha, const void* left, const void* right,
          void* out, bool adds = false);

}  // namespace moxie
