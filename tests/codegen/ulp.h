#pragma once
// Errors in units in the last place, and the arguments at which to measure them.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/codegen/math_references.h"

namespace moxie::testing {

/// How far `value` lies from `reference`, in units in the last place of the reference. Infinity counts as the number
/// after the largest. Where the reference is subnormal, or the smallest normal number, which one rounding takes below
/// itself, anything between zero and the smallest normal number is right: kernels may round subnormal results to zero.
template <typename T>
double ulps(T value, long double reference) {
  using Limits = std::numeric_limits<T>;
  const auto finite = [](long double x) {
    const long double beyond = std::ldexp(1.0L, Limits::max_exponent);
    return std::fmin(std::fmax(x, -beyond), beyond);
  };
  if (std::isnan(value) || std::isnan(reference)) return std::isnan(value) == std::isnan(reference) ? 0 : INFINITY;
  if (std::fabs(static_cast<T>(reference)) <= Limits::min() && std::fabs(value) <= Limits::min()) return 0;
  const long double expected = finite(reference);
  const int exponent = std::max(std::ilogb(expected), Limits::min_exponent - 1);
  const int capped = std::min(exponent, Limits::max_exponent - 1);
  return static_cast<double>(std::fabs(finite(value) - expected) / std::ldexp(1.0L, capped - (Limits::digits - 1)));
}

/// Numbers of [low, high]: uniform, uniform in magnitude from the subnormal numbers on, and uniform where the function
/// has most to show.
template <typename T>
std::vector<T> samples(const Reference& reference, int count) {
  std::mt19937_64 random(20240607);
  using Limits = std::numeric_limits<T>;
  const double low = std::fmax(reference.low, Limits::lowest()), high = std::fmin(reference.high, Limits::max());
  std::uniform_real_distribution<double> dense(reference.dense_low, reference.dense_high);
  std::uniform_real_distribution<double> exponent(Limits::min_exponent - Limits::digits, std::log2(std::fmax(high, 1)));
  std::vector<T> result{T(low), T(high), T(0), Limits::min(), Limits::denorm_min(), T(1), T(2), T(0.5)};
  for (int i = 0; i < count; ++i) {
    result.push_back(static_cast<T>(dense(random)));
    const T magnitude = static_cast<T>(std::exp2(exponent(random)));
    result.push_back(low < 0 && i % 2 == 0 ? static_cast<T>(std::fmax(-magnitude, low)) : magnitude);
    result.push_back(static_cast<T>(low < -1 ? low / 2 + (high / 2 - low / 2) * (i + 0.5) / count
                                             : low + high * ((i + 0.5) / count)));
  }
  return result;
}

}  // namespace moxie::testing
