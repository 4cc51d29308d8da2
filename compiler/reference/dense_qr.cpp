#include "compiler/reference/dense_qr.h"

#include <algorithm>
#include <cmath>

namespace moxie {
namespace {

/// The length of column j from row j on.
double length_below(const DenseMatrix& a, std::size_t j) {
  double length = 0;
  for (std::size_t i = j; i < a.rows; ++i) length = std::hypot(length, a(i, j));
  return length;
}

/// Column c of x less 2 (v . c) v / (v . v), where v stands in column j of `v`, from row j on.
void reflect(const DenseMatrix& v, std::size_t j, DenseMatrix& x, std::size_t c) {
  double product = 0, square = 0;
  for (std::size_t i = j; i < v.rows; ++i) {
    product += v(i, j) * x(i, c);
    square += v(i, j) * v(i, j);
  }
  for (std::size_t i = j; i < v.rows; ++i) x(i, c) -= 2 * product / square * v(i, j);
}

}  // namespace

QrFactors factorise_orthogonal(DenseMatrix a) {
  QrFactors result{DenseMatrix(a.rows, a.columns), DenseMatrix(a.columns)};
  std::vector<double> signs(a.columns);
  for (std::size_t j = 0; j < a.columns; ++j) {
    const double length = length_below(a, j);
    const bool is_finite = std::isfinite(length);
    if (!(length > 0 && is_finite) && !result.dependent)
      result.dependent = BadPivot{j, is_finite ? length : std::nan("")};
    if (!is_finite) return result;
    // The column becomes -sign length e_j, so that the first component of v does not cancel.
    signs[j] = a(j, j) < 0 ? 1 : -1;
    for (std::size_t i = j; i < a.rows && length > 0; ++i) a(i, j) /= length;
    a(j, j) -= signs[j];
    for (std::size_t c = j + 1; c < a.columns; ++c) reflect(a, j, a, c);
    result.r(j, j) = length;
    for (std::size_t c = j + 1; c < a.columns; ++c) result.r(j, c) = signs[j] * a(j, c);
  }
  for (std::size_t c = 0; c < a.columns; ++c) {
    result.q(c, c) = signs[c];
    for (std::size_t j = c + 1; j-- > 0;) reflect(a, j, result.q, c);
  }
  return result;
}

}  // namespace moxie
