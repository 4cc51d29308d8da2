#pragma once
// Intervals of real numbers, and what they become when numbers of them are added, multiplied and compared.
#include <limits>

#include "compiler/expression/value_domain.h"

namespace moxie {

/// The numbers between two ends. An end that is open is outside. Infinite ends say that the number may be infinite.
struct Interval {
  static constexpr double kInf = std::numeric_limits<double>::infinity();

  double low = -kInf, high = kInf;
  bool low_open = false, high_open = false;
  bool operator==(const Interval&) const = default;

  static constexpr Interval all() { return {}; }
  static constexpr Interval at(double value) { return {value, value}; }
  static constexpr Interval between(double low, double high) { return {low, high}; }
  static constexpr Interval open(double low, double high) { return {low, high, true, true}; }
  static constexpr Interval above(double low) { return {low, kInf, true, false}; }
  static constexpr Interval at_least(double low) { return {low, kInf}; }
  static constexpr Interval at_most(double high) { return {-kInf, high}; }
  /// What a declaration says.
  static Interval of(const ValueDomain& declared);
};

bool is_positive(const Interval& x);
bool is_negative(const Interval& x);
bool is_non_negative(const Interval& x);
bool is_non_positive(const Interval& x);
bool is_finite(const Interval& x);
bool lies_within(const Interval& inner, const Interval& outer);
/// Whether the number is in it; NaN is in none.
bool contains(const Interval& x, double value);

/// The shortest interval that has all numbers of both, and the longest one whose numbers are in both: of two that have
/// none in common, the first.
Interval hull(const Interval& a, const Interval& b);
Interval common(const Interval& a, const Interval& b);

// What numbers of the intervals give, rounded to f32 or f64. Zero times infinity is zero, as for the limits that
// products of finite numbers approach.
Interval operator-(const Interval& x);
Interval operator+(const Interval& a, const Interval& b);
Interval operator*(const Interval& a, const Interval& b);
Interval reciprocal(const Interval& x);
Interval smaller(const Interval& a, const Interval& b);
Interval larger(const Interval& a, const Interval& b);
/// The interval with room for the rounding to f32 of numbers computed in it.
Interval rounded(const Interval& exact);
/// The interval with room for errors of that size beside its ends. A zero stays where it is.
Interval widened(const Interval& x, double relative);

}  // namespace moxie
