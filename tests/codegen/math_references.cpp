#include "tests/codegen/math_references.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/arithmetic/special_functions.h"

namespace moxie::testing {
namespace {

using Real = long double;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMost = std::numeric_limits<double>::max();
constexpr Real kPi = std::numbers::pi_v<Real>;
constexpr Real kSqrt2 = std::numbers::sqrt2_v<Real>;
// B(2n), n = 1 .. 10
constexpr Real kBernoulli[] = {1 / 6.0L,       -1 / 30.0L, 1 / 42.0L,      -1 / 30.0L,     5 / 66.0L,
                               -691 / 2730.0L, 7 / 6.0L,   -3617 / 510.0L, 43867 / 798.0L, -174611 / 330.0L};
constexpr Real kAsymptotic = 25;  // from here the series in 1/x^2 reach the last bit with ten terms

Real digamma(Real x) {
  Real sum = 0;
  while (x < kAsymptotic) {
    sum -= 1 / x;
    x += 1;
  }
  Real power = 1;
  Real series = 0;
  for (int n = 1; n <= 10; ++n) series += kBernoulli[n - 1] / (2 * n * (power *= x * x));
  return sum + (std::log(x) - 1 / (2 * x) - series);
}

Real trigamma(Real x) {
  Real sum = 0;
  while (x < kAsymptotic) {
    sum += 1 / (x * x);
    x += 1;
  }
  Real power = x;
  Real series = 0;
  for (int n = 1; n <= 10; ++n) series += kBernoulli[n - 1] / (power *= x * x);
  return sum + 1 / x + 1 / (2 * x * x) + series;
}

Real log_normal_cdf(Real x) {
  if (x > 0) return std::log1p(-std::erfc(x / kSqrt2) / 2);
  if (x > -20) return std::log(std::erfc(-x / kSqrt2) / 2);
  Real term = 1;
  Real series = 1;  // Abramowitz and Stegun 26.2.12
  for (int n = 1; n <= 25; ++n) series += term *= -(2 * n - 1) / (x * x);
  return -x * x / 2 - std::log(-x * std::sqrt(2 * kPi)) + std::log(series);
}

Real normal_pdf(Real x) { return std::exp(-x * x / 2) / std::sqrt(2 * kPi); }
/// Two steps of Newton from the result in double.
Real erfinv(Real x) {
  Real y = moxie::erfinv(static_cast<double>(x));
  if (std::isinf(y)) return y;
  for (int step = 0; step < 2; ++step)
    y -= (std::erf(y) - x) * std::exp(y * y) / (2 * std::numbers::inv_sqrtpi_v<Real>);
  return y;
}

Real normal_cdf(Real x) { return std::erfc(-x / kSqrt2) / 2; }
Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
Real softplus(Real x) { return std::fmax(x, 0.0L) + std::log1p(std::exp(-std::fabs(x))); }
Real rsqrt(Real x) { return 1 / std::sqrt(x); }

constexpr Reference kReferences[] = {
    {"exp", std::exp, -kMost, kMost, -100, 100},
    {"exp2", std::exp2, -kMost, kMost, -150, 130},
    {"expm1", std::expm1, -kMost, kMost, -2, 2},
    {"log", std::log, 0, kMost, 0.5, 2},
    {"log2", std::log2, 0, kMost, 0.5, 2},
    {"log1p", std::log1p, -1, kMost, -1, 2},
    {"sqrt", std::sqrt, 0, kMost, 0, 4},
    {"rsqrt", rsqrt, 0, kMost, 0, 4},
    {"sin", std::sin, -1e6, 1e6, -10, 10},
    {"cos", std::cos, -1e6, 1e6, -10, 10},
    {"tanh", std::tanh, -kMost, kMost, -2, 2},
    {"sigmoid", sigmoid, -kMost, kMost, -100, 100},
    {"softplus", softplus, -kMost, kMost, -100, 100},
    {"erf", std::erf, -kMost, kMost, -5, 5},
    {"erfc", std::erfc, -kMost, kMost, -5, 27},
    {"erfinv", erfinv, -0.9999999, 0.9999999, -0.9999999, 0.9999999},
    {"normal_cdf", normal_cdf, -kMost, kMost, -38, 8},
    {"normal_pdf", normal_pdf, -kMost, kMost, -38, 38},
    {"log_normal_cdf", log_normal_cdf, -kMost, kMost, -40, 20},
    {"lgamma", std::lgamma, 0, kMost, 0, 20},
    {"digamma", digamma, 0, kMost, 0, 20},
    {"trigamma", trigamma, 0, kMost, 0, 20},
};

}  // namespace

std::span<const Reference> references() { return kReferences; }

}  // namespace moxie::testing
