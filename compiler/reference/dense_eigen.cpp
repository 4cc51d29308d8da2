#include "compiler/reference/dense_eigen.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/reference/rotation.h"

namespace moxie {
namespace {

/// Jacobi's method converges quadratically; matrices of thousands of rows take fewer sweeps than this.
constexpr int kMostSweeps = 100;

/// A := J^T A J and V := V J
void apply(const Rotation& by, std::size_t p, std::size_t q, DenseMatrix& a, DenseMatrix& v) {
  for (std::size_t k = 0; k < a.rows; ++k) rotate(a(k, p), a(k, q), by);
  for (std::size_t k = 0; k < a.rows; ++k) rotate(a(p, k), a(q, k), by);
  for (std::size_t k = 0; k < a.rows; ++k) rotate(v(k, p), v(k, q), by);
  a(p, q) = a(q, p) = 0;
}

/// Whether it rotated anything. Elements up to `negligible` are taken for zero.
bool sweep(DenseMatrix& a, DenseMatrix& v, double negligible) {
  bool rotated = false;
  for (std::size_t p = 0; p < a.rows; ++p) {
    for (std::size_t q = p + 1; q < a.rows; ++q) {
      if (std::abs(a(p, q)) <= negligible) continue;
      apply(rotation_of(a(p, p), a(q, q), a(p, q)), p, q, a, v);
      rotated = true;
    }
  }
  return rotated;
}

SymmetricEigen in_order(const DenseMatrix& a, const DenseMatrix& v) {
  std::vector<std::size_t> order(a.rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return a(k, k); });
  SymmetricEigen result{{}, DenseMatrix(a.rows)};
  for (std::size_t t = 0; t < a.rows; ++t) {
    const std::size_t k = order[t];
    const double sign = sign_of_vector(a.rows, [&](std::size_t r) { return v(r, k); });
    result.values.push_back(a(k, k));
    for (std::size_t r = 0; r < a.rows; ++r) result.vectors(r, t) = sign * v(r, k);
  }
  return result;
}

}  // namespace

std::optional<SymmetricEigen> decompose_symmetric(DenseMatrix a) {
  double largest = 0;
  DenseMatrix v(a.rows);
  for (std::size_t i = 0; i < a.rows; ++i) {
    v(i, i) = 1;
    for (std::size_t j = 0; j <= i; ++j) {
      if (!std::isfinite(a(i, j))) return std::nullopt;
      a(j, i) = a(i, j);
      largest = std::max(largest, std::abs(a(i, j)));
    }
  }
  for (int k = 0; k < kMostSweeps; ++k) {
    if (!sweep(a, v, std::numeric_limits<double>::epsilon() / 8 * largest)) return in_order(a, v);
  }
  return std::nullopt;
}

}  // namespace moxie
