#pragma once
// The factors Q and R of large matrices, by LAPACK.
#include "runtime/algebra_call.h"

namespace moxie {

/// Computes the call for the matrix with this number. Throws DomainError where its columns depend on each other.
template <class T>
void run_qr(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix, T* out);

}  // namespace moxie
