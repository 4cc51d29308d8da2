#include "compiler/reference/dense.h"

#include <cmath>
#include <limits>
#include <utility>

#include "compiler/expression/algebra_form.h"
#include "compiler/reference/dense_eigen.h"
#include "compiler/reference/dense_qr.h"
#include "compiler/reference/dense_svd.h"

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

void solve_general(const LuFactors& lu, std::vector<double>& x) {
  const DenseMatrix& a = lu.factors;
  for (std::size_t j = 0; j < a.rows; ++j) std::swap(x[j], x[lu.swaps[j]]);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= a(i, k) * x[k];
  }
  for (std::size_t i = a.rows; i-- > 0;) {
    for (std::size_t k = i + 1; k < a.rows; ++k) x[i] -= a(i, k) * x[k];
    x[i] /= a(i, i);
  }
}

void solve_general_transposed(const LuFactors& lu, std::vector<double>& x) {
  const DenseMatrix& a = lu.factors;
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= a(k, i) * x[k];
    x[i] /= a(i, i);
  }
  for (std::size_t i = a.rows; i-- > 0;) {
    for (std::size_t k = i + 1; k < a.rows; ++k) x[i] -= a(k, i) * x[k];
  }
  for (std::size_t j = a.rows; j-- > 0;) std::swap(x[j], x[lu.swaps[j]]);
}

std::vector<double> inverse_general(const LuFactors& lu) {
  const std::size_t n = lu.factors.rows;
  DenseMatrix result(n);
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<double> column(n);
    column[j] = 1;
    solve_general(lu, column);
    for (std::size_t i = 0; i < n; ++i) result(i, j) = column[i];
  }
  return result.values;
}

double determinant_of(const LuFactors& lu) {
  double product = 1;
  for (std::size_t i = 0; i < lu.factors.rows; ++i) product *= lu.swaps[i] == i ? lu.factors(i, i) : -lu.factors(i, i);
  return product;
}

double log_abs_determinant_of(const LuFactors& lu) {
  double sum = 0;
  for (std::size_t i = 0; i < lu.factors.rows; ++i) sum += std::log(std::abs(lu.factors(i, i)));
  return sum;
}

std::vector<double> apply_general(LinearAlgebraKind kind, const LuFactors& lu, std::vector<double> rhs,
                                  std::optional<BadPivot>& bad) {
  if (!takes_singular(kind)) bad = lu.singular;
  if (bad) return {};
  if (kind == LinearAlgebraKind::LuInverse) return inverse_general(lu);
  if (kind == LinearAlgebraKind::Determinant) return {determinant_of(lu)};
  if (kind == LinearAlgebraKind::LogAbsDeterminant) return {log_abs_determinant_of(lu)};
  if (kind == LinearAlgebraKind::LuSolve)
    solve_general(lu, rhs);
  else
    solve_general_transposed(lu, rhs);
  return rhs;
}

std::vector<double> apply_eigen(LinearAlgebraKind kind, const std::optional<SymmetricEigen>& eigen,
                                std::optional<BadPivot>& bad) {
  if (!eigen) {
    bad = BadPivot{0, std::numeric_limits<double>::quiet_NaN()};
    return {};
  }
  return kind == LinearAlgebraKind::Eigenvalues ? eigen->values : eigen->vectors.values;
}

std::vector<double> apply_qr(LinearAlgebraKind kind, const QrFactors& qr, std::optional<BadPivot>& bad) {
  bad = qr.dependent;
  if (bad) return {};
  return kind == LinearAlgebraKind::QrQ ? qr.q.values : qr.r.values;
}

std::vector<double> apply_svd(LinearAlgebraKind kind, std::optional<SingularVectors> svd,
                              std::optional<BadPivot>& bad) {
  if (!svd) {
    bad = BadPivot{0, std::numeric_limits<double>::quiet_NaN()};
    return {};
  }
  if (kind == LinearAlgebraKind::SingularValues) return std::move(svd->values);
  svd->u.values.insert(svd->u.values.end(), svd->v.values.begin(), svd->v.values.end());
  return std::move(svd->u.values);
}

}  // namespace

LuFactors factorise_general(DenseMatrix a) {
  LuFactors lu{std::move(a), {}};
  DenseMatrix& f = lu.factors;
  for (std::size_t j = 0; j < f.rows; ++j) {
    std::size_t best = j;
    for (std::size_t i = j + 1; i < f.rows; ++i) {
      if (std::abs(f(i, j)) > std::abs(f(best, j))) best = i;
    }
    lu.swaps.push_back(best);
    for (std::size_t c = 0; c < f.rows; ++c) std::swap(f(j, c), f(best, c));
    const bool is_good = std::abs(f(j, j)) > 0;
    if (!is_good && !lu.singular) lu.singular = BadPivot{j, f(j, j)};
    if (f(j, j) == 0) continue;
    for (std::size_t i = j + 1; i < f.rows; ++i) {
      f(i, j) /= f(j, j);
      for (std::size_t c = j + 1; c < f.rows; ++c) f(i, c) -= f(i, j) * f(j, c);
    }
  }
  return lu;
}

std::vector<double> apply(LinearAlgebraKind kind, DenseMatrix a, std::vector<double> rhs,
                          std::optional<BadPivot>& bad) {
  const Factorisation factorisation = algebra_form(kind).factorisation;
  if (factorisation == Factorisation::Lu)
    return apply_general(kind, factorise_general(std::move(a)), std::move(rhs), bad);
  if (factorisation == Factorisation::Qr) return apply_qr(kind, factorise_orthogonal(std::move(a)), bad);
  if (factorisation == Factorisation::Svd) return apply_svd(kind, decompose_singular(std::move(a)), bad);
  if (factorisation == Factorisation::Eigen) return apply_eigen(kind, decompose_symmetric(std::move(a)), bad);
  if (factorisation == Factorisation::Cholesky) bad = factorise(a);
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
    default:
      break;
  }
  return rhs;
}

}  // namespace moxie
