#include "compiler/ir/special_functions.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace moxie {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;

/// log_normal_cdf far out in the lower tail: the pdf over -x times 1 - 1/x^2 + 1*3/x^4 - 1*3*5/x^6 ..., summed until a
/// term no longer counts.
double lower_tail_log_cdf(double x) {
  const double inverse_square = 1 / (x * x);
  double series = 1, term = 1;
  for (int odd = 1; std::abs(term) > 1e-17; odd += 2) {
    term *= -odd * inverse_square;
    series += term;
  }
  return -0.5 * x * x - std::log(-x) - kLogSqrtTwoPi + std::log(series);
}

/// Where the asymptotic series of digamma and trigamma with the terms below are exact to a rounding error.
constexpr double kAsymptotic = 10;

}  // namespace

double maximum(double a, double b) { return b > a || std::isnan(b) ? b : a; }
double minimum(double a, double b) { return b < a || std::isnan(b) ? b : a; }

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double normal_pdf(double x) { return std::exp(-0.5 * x * x - kLogSqrtTwoPi); }

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double log_normal_cdf(double x) {
  if (x < -30) return lower_tail_log_cdf(x);
  if (x < 0) return std::log(normal_cdf(x));
  return std::log1p(-normal_cdf(-x));
}

double digamma(double x) {
  if (x == 0) return -1 / x;
  if (x < 0) {
    const double part = std::remainder(x, 1);
    return part == 0 ? kNaN : digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * part);
  }
  double shift = 0;
  while (x < kAsymptotic) {  // psi(x) = psi(x + 1) - 1/x
    shift -= 1 / x;
    x += 1;
  }
  const double y = 1 / (x * x);
  const double tail =
      y * (1. / 12 - y * (1. / 120 - y * (1. / 252 - y * (1. / 240 - y * (1. / 132 - y * (691. / 32760 - y / 12))))));
  return shift + std::log(x) - 0.5 / x - tail;
}

double trigamma(double x) {
  if (x <= 0) {
    const double inverse_sine = std::numbers::pi / std::sin(std::numbers::pi * std::remainder(x, 1));
    return inverse_sine * inverse_sine - trigamma(1 - x);
  }
  double shift = 0;
  while (x < kAsymptotic) {  // psi'(x) = psi'(x + 1) + 1/x^2
    shift += 1 / (x * x);
    x += 1;
  }
  const double y = 1 / (x * x);
  const double tail =
      y * (1. / 6 - y * (1. / 30 - y * (1. / 42 - y * (1. / 30 - y * (5. / 66 - y * (691. / 2730 - y * 7 / 6))))));
  return shift + (1 + 0.5 / x + tail) / x;
}

}  // namespace moxie
