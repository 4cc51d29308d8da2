#pragma once
// Rotations of Jacobi's methods in double.
#include <cmath>

namespace moxie {

struct Rotation {
  double cosine, sine;
};

/// By the smaller angle that makes element (p, q) of J^T A J zero, A being symmetric (Golub and Van Loan, Matrix
/// Computations, 8.5). `between` is not 0.
inline Rotation rotation_of(double at_p, double at_q, double between) {
  const double tau = (at_q - at_p) / (2 * between);
  const double tangent = (tau < 0 ? -1 : 1) / (std::abs(tau) + std::hypot(1, tau));
  const double cosine = 1 / std::hypot(1, tangent);
  return {cosine, tangent * cosine};
}

inline void rotate(double& x, double& y, const Rotation& by) {
  const double first = by.cosine * x - by.sine * y;
  y = by.sine * x + by.cosine * y;
  x = first;
}

}  // namespace moxie
