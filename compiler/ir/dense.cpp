#include "compiler/ir/dense.h"

#include <cmath>

#include "compiler/ir/algebra_form.h"

namespace moxie {

std::optional<BadPivot> factorise(DenseMatrix& a) {
  for (std::size_t j = 0; j < a.rows; ++j) {
    double pivot = a(j, j);
    for (std::size_t k = 0; k < j; ++k) pivot -= a(j, k) * a(j, k);
    if (!(pivot > 0)) return BadPivot{j, pivot};
    a(j, j) = std::sqrt(pivot);
    for (std::size_t i = j + 1; i < a.rows; ++i) {
      for (std::size_t k = 0; k < j; ++k) a(i, j) -= a(i, k) * a(j, k);
      a(i, j) /= a(j, j);
      a(j, i) = 0;
    }
  }
  return std::nullopt;
}

void solve_lower(const DenseMatrix& lower, std::vector<double>& b) {
  for (std::size_t i = 0; i < lower.rows; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= lower(i, k) * b[k];
    b[i] /= lower(i, i);
  }
}

void solve_lower_transposed(const DenseMatrix& lower, std::vector<double>& b) {
  for (std::size_t i = lower.rows; i-- > 0;) {
    for (std::size_t k = i + 1; k < lower.rows; ++k) b[i] -= lower(k, i) * b[k];
    b[i] /= lower(i, i);
  }
}

namespace {

std::vector<double> inverse(const DenseMatrix& factor) {
  DenseMatrix result(factor.rows);
  for (std::size_t j = 0; j < factor.rows; ++j) {
    std::vector<double> column(factor.rows);
    column[j] = 1;
    solve_lower(factor, column);
    solve_lower_transposed(factor, column);
    for (std::size_t i = 0; i < factor.rows; ++i) result(i, j) = column[i];
  }
  return result.values;
}

double log_determinant(const DenseMatrix& factor) {
  double sum = 0;
  for (std::size_t i = 0; i < factor.rows; ++i) sum += 2 * std::log(factor(i, i));
  return sum;
}

}  // namespace

std::vector<double> apply(LinearAlgebraKind kind, DenseMatrix a, std::vector<double> rhs,
                          std::optional<BadPivot>& bad) {
  if (!takes_factor(kind)) bad = factorise(a);
  if (bad) return {};
  switch (kind) {
    case LinearAlgebraKind::Cholesky:
      return a.values;
    case LinearAlgebraKind::Inverse:
    case LinearAlgebraKind::CholeskyInverse:
      return inverse(a);
    case LinearAlgebraKind::LogDet:
      return {log_determinant(a)};
    case LinearAlgebraKind::TriSolve:
      solve_lower(a, rhs);
      break;
    case LinearAlgebraKind::TriSolveTransposed:
      solve_lower_transposed(a, rhs);
      break;
    case LinearAlgebraKind::Solve:
      solve_lower(a, rhs);
      solve_lower_transposed(a, rhs);
      break;
  }
  return rhs;
}

}  // namespace moxie
