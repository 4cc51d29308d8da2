#pragma once
// Factorisations as LAPACK defines them, plainly and in double, of matrices whose columns lie one after the other.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace moxie::ptx {

template <class T>
struct Columns {
  T* first;
  int stride;
  bool transposed = false;  // (i, j) is element (j, i)
  T& operator()(int i, int j) const {
    return transposed ? first[j + std::ptrdiff_t{stride} * i] : first[i + std::ptrdiff_t{stride} * j];
  }
};

/// The lower triangle of `a` becomes L. Returns 0, or the number from 1 of the pivot that is not positive, which is
/// left in its place.
template <class T>
int factor_cholesky(const Columns<T>& a, int n) {
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) {
      double sum = a(i, j);
      for (int k = 0; k < j; ++k) sum -= double(a(i, k)) * a(j, k);
      if (i == j && !(sum > 0)) return a(j, j) = T(sum), j + 1;
      a(i, j) = T(i == j ? std::sqrt(sum) : sum / a(j, j));
    }
  }
  return 0;
}

/// The lower triangle of `l` becomes that of (L L^T)^-1.
template <class T>
void invert_from_cholesky(const Columns<T>& l, int n) {
  std::vector<double> inverse(static_cast<std::size_t>(n) * n, 0.0);
  const Columns<double> x{inverse.data(), n};
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) {
      double sum = i == j;
      for (int k = j; k < i; ++k) sum -= l(i, k) * x(k, j);
      x(i, j) = sum / l(i, i);
    }
  }
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) {
      double sum = 0;
      for (int k = i; k < n; ++k) sum += x(k, i) * x(k, j);
      l(i, j) = T(sum);
    }
  }
}

/// Row i was exchanged with row swaps[i] - 1. Returns 0, or the number from 1 of the first pivot that is 0.
template <class T>
int factor_lu(const Columns<T>& a, int n, int* swaps) {
  int zero = 0;
  for (int j = 0; j < n; ++j) {
    int pivot = j;
    for (int i = j + 1; i < n; ++i) {
      if (std::abs(a(i, j)) > std::abs(a(pivot, j))) pivot = i;
    }
    swaps[j] = pivot + 1;
    for (int k = 0; k < n; ++k) std::swap(a(j, k), a(pivot, k));
    if (a(j, j) == 0 && zero == 0) zero = j + 1;
    for (int i = j + 1; i < n && a(j, j) != 0; ++i) {
      a(i, j) /= a(j, j);
      for (int k = j + 1; k < n; ++k) a(i, k) = T(a(i, k) - double(a(i, j)) * a(j, k));
    }
  }
  return zero;
}

template <class T>
void solve_lu(const Columns<const T>& a, int n, const int* swaps, bool transposed, const Columns<T>& b, int columns) {
  for (int c = 0; c < columns; ++c) {
    std::vector<double> x;
    for (int i = 0; i < n; ++i) x.push_back(b(i, c));
    const auto at = [&](int i) -> double& { return x[static_cast<std::size_t>(i)]; };
    for (int i = 0; i < n && !transposed; ++i) std::swap(at(i), at(swaps[i] - 1));
    for (int i = 0; i < n; ++i) {  // L, or U^T
      for (int k = 0; k < i; ++k) at(i) -= transposed ? a(k, i) * at(k) : a(i, k) * at(k);
      if (transposed) at(i) /= a(i, i);
    }
    for (int i = n - 1; i >= 0; --i) {  // U, or L^T
      for (int k = i + 1; k < n; ++k) at(i) -= transposed ? a(k, i) * at(k) : a(i, k) * at(k);
      if (!transposed) at(i) /= a(i, i);
    }
    for (int i = n - 1; i >= 0 && transposed; --i) std::swap(at(i), at(swaps[i] - 1));
    for (int i = 0; i < n; ++i) b(i, c) = T(at(i));
  }
}

/// Columns first..n of rows j..m of `a` become (I - scale v v^T) a, with v = (1, rows j+1..m of `vector`).
template <class T, class Vector>
void reflect(const Columns<T>& a, int m, int j, int first, int n, double scale, const Vector& vector) {
  for (int c = first; c < n; ++c) {
    double dot = a(j, c);
    for (int i = j + 1; i < m; ++i) dot += double(vector(i)) * a(i, c);
    a(j, c) = T(a(j, c) - scale * dot);
    for (int i = j + 1; i < m; ++i) a(i, c) = T(a(i, c) - scale * dot * vector(i));
  }
}

/// R, and below it the vectors of the reflections with their scales.
template <class T>
void factor_qr(const Columns<T>& a, int m, int n, T* scales) {
  for (int j = 0; j < n; ++j) {
    double below = 0;
    for (int i = j + 1; i < m; ++i) below += double(a(i, j)) * a(i, j);
    scales[j] = 0;
    if (below == 0) continue;
    const double head = a(j, j), norm = -std::copysign(std::sqrt(head * head + below), head);
    scales[j] = T((norm - head) / norm);
    for (int i = j + 1; i < m; ++i) a(i, j) = T(a(i, j) / (head - norm));
    a(j, j) = T(norm);
    reflect(a, m, j, j + 1, n, scales[j], [&](int i) { return a(i, j); });
  }
}

/// What factor_qr() left becomes the first n columns of Q.
template <class T>
void form_q(const Columns<T>& a, int m, int n, const T* scales) {
  std::vector<double> product(static_cast<std::size_t>(m) * n, 0.0);
  const Columns<double> q{product.data(), m};
  for (int j = 0; j < n; ++j) q(j, j) = 1;
  for (int j = n - 1; j >= 0; --j) reflect(q, m, j, 0, n, scales[j], [&](int i) { return a(i, j); });
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) a(i, j) = T(q(i, j));
  }
}

/// Rotates columns p and q of u and of v until those of u are orthogonal (Hestenes). Whether they were not.
inline bool rotate(const Columns<double>& u, int m, const Columns<double>& v, int n, int p, int q) {
  double pp = 0, qq = 0, pq = 0;
  for (int i = 0; i < m; ++i) pp += u(i, p) * u(i, p), qq += u(i, q) * u(i, q), pq += u(i, p) * u(i, q);
  if (std::abs(pq) <= 1e-15 * std::sqrt(pp * qq)) return false;
  const double tau = (qq - pp) / (2 * pq);
  const double tangent = std::copysign(1, tau) / (std::abs(tau) + std::sqrt(1 + tau * tau));
  const double cosine = 1 / std::sqrt(1 + tangent * tangent), sine = cosine * tangent;
  const auto turn = [&](const Columns<double>& matrix, int rows) {
    for (int i = 0; i < rows; ++i) {
      const double first = matrix(i, p), second = matrix(i, q);
      matrix(i, p) = cosine * first - sine * second;
      matrix(i, q) = sine * first + cosine * second;
    }
  };
  turn(u, m), turn(v, n);
  return true;
}

/// A = U S V^T with m >= n: columns of U and V in the order of falling values.
struct Singular {
  std::vector<double> values, u, v;
};

template <class T>
Singular decompose(const Columns<T>& a, int m, int n) {
  std::vector<double> us(static_cast<std::size_t>(m) * n), vs(static_cast<std::size_t>(n) * n, 0.0);
  const Columns<double> u{us.data(), m}, v{vs.data(), n};
  for (int j = 0; j < n; ++j) {
    v(j, j) = 1;
    for (int i = 0; i < m; ++i) u(i, j) = a(i, j);
  }
  constexpr int kMaxSweeps = 60;
  bool turned = true;
  for (int sweep = 0; sweep < kMaxSweeps && turned; ++sweep) {
    turned = false;
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) turned |= rotate(u, m, v, n, p, q);
    }
  }
  std::vector<double> norms;
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int i = 0; i < m; ++i) sum += u(i, j) * u(i, j);
    norms.push_back(std::sqrt(sum));
  }
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](int j) { return norms[static_cast<std::size_t>(j)]; });
  Singular result;
  for (const int j : order) {
    const double value = norms[static_cast<std::size_t>(j)];
    result.values.push_back(value);
    for (int i = 0; i < m; ++i) result.u.push_back(value > 0 ? u(i, j) / value : 0);
    for (int i = 0; i < n; ++i) result.v.push_back(v(i, j));
  }
  return result;
}

/// Eigenvalues of the symmetric matrix in the lower triangle, ascending, and eigenvectors in the columns of `a`: those
/// of the matrix made positive by a multiple of the unit matrix, which are its singular vectors.
template <class T>
void decompose_symmetric(const Columns<T>& a, int n, T* values) {
  double shift = 0;
  for (int i = 0; i < n; ++i) {
    double row = 0;
    for (int j = 0; j < n; ++j) row += std::abs(a(std::max(i, j), std::min(i, j)));
    shift = std::max(shift, row);
  }
  std::vector<double> positive(static_cast<std::size_t>(n) * n);
  const Columns<double> s{positive.data(), n};
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) s(i, j) = a(std::max(i, j), std::min(i, j)) + (i == j ? 1.1 * shift : 0);
  }
  const Singular singular = decompose(s, n, n);
  for (int j = 0; j < n; ++j) {
    values[j] = T(singular.values[static_cast<std::size_t>(n - 1 - j)] - 1.1 * shift);
    for (int i = 0; i < n; ++i) a(i, j) = T(singular.v[static_cast<std::size_t>((n - 1 - j) * n + i)]);
  }
}

}  // namespace moxie::ptx
