#pragma once
// Linear algebra on large matrices: blocked algorithms whose blocks are products and triangular solves of OpenBLAS.
#include "runtime/algebra_call.h"
#include "runtime/cpu/thread_pool.h"

namespace moxie {

/// Computes the call, of tensors at these addresses. A single matrix is split over the threads of the pool, a batch of
/// matrices over them one by one. How matrices are split depends on their extents alone: the same bits for any number
/// of threads. Throws DomainError where a matrix cannot be factored, DeviceError if no BLAS can be loaded.
void run_algebra(ThreadPool& pool, const AlgebraCall& call, const AlgebraShape& shape, const void* matrix,
                 const void* rhs, void* out);

}  // namespace moxie
