#pragma once
// Singular values and vectors of large matrices with at least as many rows as columns, by LAPACK.
#include "runtime/algebra_call.h"

namespace moxie {

/// Computes the call for the matrix with this number. Throws DomainError for one with a NaN or an infinite element.
template <class T>
void run_svd(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix, T* out);

}  // namespace moxie
