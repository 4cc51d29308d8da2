#pragma once
// Eigenvalues and eigenvectors of large symmetric matrices, by LAPACK.
#include "runtime/algebra_call.h"

namespace moxie {

/// Computes the call for the matrix with this number. Throws DomainError for one with a NaN or an infinite element.
template <class T>
void run_eigen(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix, T* out);

}  // namespace moxie
