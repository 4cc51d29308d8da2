#pragma once
// AlgebraForm: how the operations of linear algebra are written, and what they read.
#include <cstddef>

#include "compiler/ir/expr.h"

namespace moxie {

/// What a matrix is. Of a symmetric positive definite one and of a triangular factor the lower triangle is read.
enum class MatrixClass : std::uint8_t { Symmetric, Factor, General };

/// The number of subscripts that choose an element of the result, and whether a right-hand side follows the matrix.
/// With one subscript it is the column index that names it; the row index is bound.
struct AlgebraForm {
  std::size_t elements;
  bool has_rhs;
  MatrixClass matrix;
};

inline AlgebraForm algebra_form(LinearAlgebraKind kind) {
  switch (kind) {
    case LinearAlgebraKind::Cholesky:
    case LinearAlgebraKind::Inverse:
      return {2, false, MatrixClass::Symmetric};
    case LinearAlgebraKind::LogDet:
      return {0, false, MatrixClass::Symmetric};
    case LinearAlgebraKind::Solve:
      return {1, true, MatrixClass::Symmetric};
    case LinearAlgebraKind::CholeskyInverse:
      return {2, false, MatrixClass::Factor};
    case LinearAlgebraKind::TriSolve:
    case LinearAlgebraKind::TriSolveTransposed:
      return {1, true, MatrixClass::Factor};
    case LinearAlgebraKind::LuSolve:
    case LinearAlgebraKind::LuSolveTransposed:
      return {1, true, MatrixClass::General};
    case LinearAlgebraKind::LuInverse:
      return {2, false, MatrixClass::General};
    case LinearAlgebraKind::Determinant:
    case LinearAlgebraKind::LogAbsDeterminant:
      break;
  }
  return {0, false, MatrixClass::General};
}

inline bool reads_whole_matrix(LinearAlgebraKind kind) { return algebra_form(kind).matrix == MatrixClass::General; }

/// Whether a singular matrix has a result: the determinant 0, and its logarithm.
inline bool takes_singular(LinearAlgebraKind kind) {
  return kind == LinearAlgebraKind::Determinant || kind == LinearAlgebraKind::LogAbsDeterminant;
}

}  // namespace moxie
