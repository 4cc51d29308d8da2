#include "compiler/arithmetic/special_functions.h"

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

/// sqrt(x) e^-x I(x) for x >= 30, where the asymptotic series is exact to a rounding error (Abramowitz and
/// Stegun 9.7.1).
double bessel_tail(int order, double x) {
  double series = 1, term = 1;
  for (int k = 1; std::abs(term) > 1e-18; ++k) {
    const double odd = 2 * k - 1;
    term *= (odd * odd - 4 * order * order) / (8 * k * x);
    series += term;
  }
  return series * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

/// e^-|x| I(x) for an order of 0 or 1 and x >= 0. Terms of the power series are positive (9.6.10).
double scaled_bessel(int order, double x) {
  if (std::isinf(x)) return 0;
  if (x >= 30) return bessel_tail(order, x) / std::sqrt(x);
  const double z = 0.25 * x * x;
  double series = 1, term = 1;
  for (int k = 1; term > 1e-17 * series; ++k) {
    term *= z / (static_cast<double>(k) * (k + order));
    series += term;
  }
  return std::exp(-x) * series * (order == 1 ? 0.5 * x : 1);
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

/// By steps of Halley's method, from an approximation of S. Winitzki (A handy approximation for the error function and
/// its inverse, 2008). Near 1 the equation is erfc(y) = 1 - x, whose right side is exact.
double erfinv(double x) {
  const double a = std::abs(x);
  if (!(a < 1)) return a == 1 ? x * std::numeric_limits<double>::infinity() : kNaN;
  const double logarithm = std::log((1 - a) * (1 + a)), centre = 4.33 + logarithm / 2;
  double y = std::sqrt(std::sqrt(centre * centre - logarithm / 0.147) - centre);
  for (int k = 0; k < 4; ++k) {
    const double beyond = a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const double step = beyond / (2 * std::numbers::inv_sqrtpi) * std::exp(y * y);
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

double i0e(double x) { return scaled_bessel(0, std::abs(x)); }
double i1e(double x) { return std::copysign(scaled_bessel(1, std::abs(x)), x); }

}  // namespace moxie
