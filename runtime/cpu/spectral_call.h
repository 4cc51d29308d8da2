#pragma once
// What calls for eigenvalues and for singular values have in common.
#include <limits>

#include "runtime/algebra_call.h"

namespace moxie {

/// Writes the vectors, or else the values, of a matrix that is decomposed by LAPACK. Throws DomainError where that
/// fails: an element is NaN or infinite.
template <class Matrix, class T>
void decompose(Matrix matrix, bool wants_vectors, const AlgebraCall& call, const AlgebraShape& shape,
               std::int64_t number, T* out) {
  if (!matrix.decompose()) fail_factorisation(call, shape, number, 0, std::numeric_limits<double>::quiet_NaN());
  T* const result = out + element_of(shape, number).out;
  if (wants_vectors)
    matrix.put_vectors(result, shape.out);
  else
    matrix.put_values(result, shape.out);
}

}  // namespace moxie
