#include "compiler/reference/dense_svd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/reference/dense_eigen.h"
#include "compiler/reference/dense_qr.h"
#include "compiler/reference/rotation.h"

namespace moxie {
namespace {

/// See kMostSweeps of dense_eigen.cpp.
constexpr int kMaxSingularSweeps = 100;

double row_product(const DenseMatrix& a, std::size_t p, std::size_t q) {
  double sum = 0;
  for (std::size_t k = 0; k < a.columns; ++k) sum += a(p, k) * a(q, k);
  return sum;
}

/// Rotates every pair of rows of `a` towards orthogonality, and of `turned` with them. Whether it rotated anything: the
/// product of two rows is compared with what rounds off it, or with the rounding of the largest element, which is 1.
/// Rows that rounding alone keeps from zero would be rotated forever.
bool sweep_rows(DenseMatrix& a, DenseMatrix& turned) {
  const double rounding = std::numeric_limits<double>::epsilon() * std::sqrt(static_cast<double>(a.rows));
  bool rotated = false;
  for (std::size_t p = 0; p < a.rows; ++p) {
    for (std::size_t q = p + 1; q < a.rows; ++q) {
      const double at_p = row_product(a, p, p), at_q = row_product(a, q, q), between = row_product(a, p, q);
      const double size = std::sqrt(std::max(at_p, at_q) * std::max(std::min(at_p, at_q), 1.0));
      if (!(std::abs(between) > rounding * size)) continue;
      const Rotation by = rotation_of(at_p, at_q, between);
      for (std::size_t k = 0; k < a.columns; ++k) rotate(a(p, k), a(q, k), by);
      for (std::size_t k = 0; k < a.columns; ++k) rotate(turned(p, k), turned(q, k), by);
      rotated = true;
    }
  }
  return rotated;
}

/// W R = diag(values) V^T for an orthogonal W, whose rows are those of `turned`: so R = W^T diag(values) V^T. The rows
/// of `rotated` are those of W R, apart from a common factor.
SingularVectors in_descending_order(const DenseMatrix& q, const DenseMatrix& rotated, const DenseMatrix& turned,
                                    double factor) {
  const std::size_t n = rotated.rows;
  std::vector<double> lengths;
  for (std::size_t k = 0; k < n; ++k) lengths.push_back(std::sqrt(row_product(rotated, k, k)));
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t k) { return lengths[k]; });
  DenseMatrix columns(n);
  for (std::size_t t = 0; t < n; ++t) {
    for (std::size_t c = 0; c < n; ++c) columns(c, t) = rotated(order[t], c);
  }
  // The columns are orthogonal. Q has their directions, and others in the place of zeros.
  SingularVectors result{{}, DenseMatrix(q.rows, n), factorise_orthogonal(std::move(columns)).q};
  for (std::size_t t = 0; t < n; ++t) {
    result.values.push_back(factor * lengths[order[t]]);
    const double sign = sign_of_vector(n, [&](std::size_t c) { return result.v(c, t); });
    for (std::size_t c = 0; c < n; ++c) result.v(c, t) *= sign;
    for (std::size_t r = 0; r < q.rows; ++r) {
      for (std::size_t k = 0; k < n; ++k) result.u(r, t) += sign * q(r, k) * turned(order[t], k);
    }
  }
  return result;
}

}  // namespace

std::optional<SingularVectors> decompose_singular(DenseMatrix a) {
  if (!std::ranges::all_of(a.values, [](double x) { return std::isfinite(x); })) return std::nullopt;
  QrFactors qr = factorise_orthogonal(std::move(a));
  double largest = 0;
  for (const double x : qr.r.values) largest = std::max(largest, std::abs(x));
  if (!std::isfinite(largest)) return std::nullopt;
  if (largest == 0) largest = 1;
  for (double& x : qr.r.values) x /= largest;
  DenseMatrix turned(qr.r.rows);
  for (std::size_t k = 0; k < turned.rows; ++k) turned(k, k) = 1;
  for (int k = 0; k < kMaxSingularSweeps; ++k) {
    if (!sweep_rows(qr.r, turned)) return in_descending_order(qr.q, qr.r, turned, largest);
  }
  return std::nullopt;
}

}  // namespace moxie
