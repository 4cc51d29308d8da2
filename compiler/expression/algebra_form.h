#pragma once
// AlgebraForm: how the operations of linear algebra are written, what they read, and what they are computed from.
#include <cstddef>
#include <string>

#include "compiler/expression/expr.h"

namespace moxie {

/// What a matrix is. Of a symmetric one and of a triangular factor the lower triangle is read. Row is no matrix, but a
/// vector over the row index, which is sorted.
enum class MatrixClass : std::uint8_t { Symmetric, Factor, General, Row };

/// What is computed of the matrix first, and the result from it.
enum class Factorisation : std::uint8_t { None, Cholesky, Lu, Eigen, Qr, Svd };

/// What a subscript counts: rows of the matrix, its columns, or both, one after the other.
enum class MatrixSide : std::uint8_t { Row, Column, Both };

/// The number of subscripts that choose an element of the result, and whether a right-hand side follows the matrix.
/// With one subscript it is the column index that names it; the row index is bound.
struct AlgebraForm {
  std::size_t elements;
  bool has_rhs;
  MatrixClass matrix;
  Factorisation factorisation;
  MatrixSide first = MatrixSide::Row;  // of two subscripts, what the first counts; the last counts columns
};

inline AlgebraForm algebra_form(LinearAlgebraKind kind) {
  using enum MatrixClass;
  switch (kind) {
    case LinearAlgebraKind::Cholesky:
    case LinearAlgebraKind::Inverse:
      return {2, false, Symmetric, Factorisation::Cholesky};
    case LinearAlgebraKind::LogDet:
      return {0, false, Symmetric, Factorisation::Cholesky};
    case LinearAlgebraKind::Solve:
      return {1, true, Symmetric, Factorisation::Cholesky};
    case LinearAlgebraKind::CholeskyInverse:
      return {2, false, Factor, Factorisation::None};
    case LinearAlgebraKind::TriSolve:
    case LinearAlgebraKind::TriSolveTransposed:
      return {1, true, Factor, Factorisation::None};
    case LinearAlgebraKind::LuSolve:
    case LinearAlgebraKind::LuSolveTransposed:
      return {1, true, General, Factorisation::Lu};
    case LinearAlgebraKind::LuInverse:
      return {2, false, General, Factorisation::Lu};
    case LinearAlgebraKind::Eigenvalues:
      return {1, false, Symmetric, Factorisation::Eigen};
    case LinearAlgebraKind::Eigenvectors:
      return {2, false, Symmetric, Factorisation::Eigen};
    case LinearAlgebraKind::QrQ:
      return {2, false, General, Factorisation::Qr};
    case LinearAlgebraKind::QrR:
      return {2, false, General, Factorisation::Qr, MatrixSide::Column};
    case LinearAlgebraKind::SingularValues:
      return {1, false, General, Factorisation::Svd};
    case LinearAlgebraKind::Svd:
      return {2, false, General, Factorisation::Svd, MatrixSide::Both};
    case LinearAlgebraKind::Sort:
    case LinearAlgebraKind::ArgSort:
      return {1, false, Row, Factorisation::None};
    case LinearAlgebraKind::Determinant:
    case LinearAlgebraKind::LogAbsDeterminant:
      break;
  }
  return {0, false, General, Factorisation::Lu};
}

/// Whether the matrix may have more rows than columns.
inline bool takes_tall(LinearAlgebraKind kind) {
  const Factorisation factorisation = algebra_form(kind).factorisation;
  return factorisation == Factorisation::Qr || factorisation == Factorisation::Svd;
}

/// What is said of a matrix with another number of columns than the operation takes.
inline std::string wrong_shape(LinearAlgebraKind kind, const std::string& rows, const std::string& columns) {
  return std::string(to_string(kind)) + " takes a matrix with " +
         (takes_tall(kind) ? "at least as many rows as columns" : "as many rows as columns") + ", and this one has " +
         rows + " rows and " + columns + " columns" +
         (takes_tall(kind) ? "; exchange its two indices to take its transpose" : "");
}

/// How many values subscript k of an element of the result has.
inline Affine element_extent(LinearAlgebraKind kind, const MatrixSize& size, std::size_t k) {
  const AlgebraForm form = algebra_form(kind);
  if (k + 1 == form.elements || form.first == MatrixSide::Column) return size.columns;
  return form.first == MatrixSide::Row ? size.rows : size.rows + size.columns;
}

inline bool sorts_row(LinearAlgebraKind kind) { return algebra_form(kind).matrix == MatrixClass::Row; }

inline bool reads_whole_matrix(LinearAlgebraKind kind) { return algebra_form(kind).matrix == MatrixClass::General; }

/// Whether a singular matrix has a result: the determinant 0, and its logarithm.
inline bool takes_singular(LinearAlgebraKind kind) {
  return kind == LinearAlgebraKind::Determinant || kind == LinearAlgebraKind::LogAbsDeterminant;
}

/// What is said of a matrix that has no such factors.
struct FactorisationFailure {
  const char* what;    // "the matrix is singular"
  const char* advice;  // what to do, or where to look
  bool names_pivot;    // whether it is known at which pivot
};

inline FactorisationFailure failure_of(Factorisation factorisation) {
  switch (factorisation) {
    case Factorisation::Lu:
      return {"the matrix is singular", "a pivot of its elimination is 0 or NaN", true};
    case Factorisation::Eigen:
      return {"the eigenvalues of the matrix are not found", "an element of it is NaN or infinite", false};
    case Factorisation::Qr:
      return {"the columns of the matrix depend on each other", "a diagonal element of R is 0, NaN or infinite", true};
    case Factorisation::Svd:
      return {"the singular values of the matrix are not found", "an element of it is NaN or infinite", false};
    case Factorisation::None:
    case Factorisation::Cholesky:
      break;
  }
  return {"the matrix is not positive definite", "add to its diagonal (noise or jitter), or compute it in f64", true};
}

}  // namespace moxie
