#pragma once
// AlgebraForm: how the operations of linear algebra are written.
#include <cstddef>

#include "compiler/ir/expr.h"

namespace moxie {

/// The number of subscripts that choose an element of the result, and whether a right-hand side follows the matrix.
/// With one subscript it is the column index that names it; the row index is bound.
struct AlgebraForm {
  std::size_t elements;
  bool has_rhs;
};

inline AlgebraForm algebra_form(LinearAlgebraKind kind) {
  switch (kind) {
    case LinearAlgebraKind::Cholesky:
    case LinearAlgebraKind::Inverse:
    case LinearAlgebraKind::CholeskyInverse:
      return {2, false};
    case LinearAlgebraKind::LogDet:
      return {0, false};
    case LinearAlgebraKind::Solve:
    case LinearAlgebraKind::TriSolve:
    case LinearAlgebraKind::TriSolveTransposed:
      break;
  }
  return {1, true};
}

/// Whether the matrix is a triangular factor already.
inline bool takes_factor(LinearAlgebraKind kind) {
  return kind == LinearAlgebraKind::TriSolve || kind == LinearAlgebraKind::TriSolveTransposed ||
         kind == LinearAlgebraKind::CholeskyInverse;
}

}  // namespace moxie
