#pragma once
// Linear algebra on large matrices of any kind, factored by LAPACK's elimination with row exchanges.
#include "runtime/algebra_call.h"

namespace moxie {

/// Computes the matrix of the batch with this number, of tensors at these addresses, on the calling thread. Throws
/// DomainError where the matrix is singular.
template <class T>
void run_general(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix, const T* rhs,
                 T* out);

}  // namespace moxie
