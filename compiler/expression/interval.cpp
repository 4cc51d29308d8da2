#include "compiler/expression/interval.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace moxie {
namespace {

/// Rounding to f32 moves a number by half of this at most.
constexpr double kSingleRounding = 0x1p-23;

struct End {
  double value;
  bool open;
};

End low_of(const Interval& x) { return {x.low, x.low_open}; }
End high_of(const Interval& x) { return {x.high, x.high_open}; }
Interval interval(End low, End high) { return {low.value, high.value, low.open, high.open}; }

// The end further down, where both are low ends, or further up, where both are high ends; and the other one.
End lower_low(End a, End b) {
  return a.value != b.value ? (a.value < b.value ? a : b) : End{a.value, a.open && b.open};
}
End lower_high(End a, End b) {
  return a.value != b.value ? (a.value < b.value ? a : b) : End{a.value, a.open || b.open};
}
End mirrored(End a) { return {-a.value, a.open}; }
End higher_high(End a, End b) { return mirrored(lower_low(mirrored(a), mirrored(b))); }
End higher_low(End a, End b) { return mirrored(lower_high(mirrored(a), mirrored(b))); }

/// A closed zero makes the product zero, whatever the other factor is.
End product(End a, End b) {
  const bool is_zero = (a.value == 0 && !a.open) || (b.value == 0 && !b.open);
  if (a.value == 0 || b.value == 0) return {0, !is_zero};
  return {a.value * b.value, a.open || b.open};
}

bool is_empty(const Interval& x) { return x.low > x.high || (x.low == x.high && (x.low_open || x.high_open)); }

Interval intersection(const Interval& a, const Interval& b) {
  return interval(higher_low(low_of(a), low_of(b)), lower_high(high_of(a), high_of(b)));
}

}  // namespace

Interval Interval::of(const ValueDomain& declared) {
  Interval result;
  if (declared.low) result.low = declared.low->value, result.low_open = declared.low->open;
  if (declared.high) result.high = declared.high->value, result.high_open = declared.high->open;
  return result;
}

bool is_positive(const Interval& x) { return x.low > 0 || (x.low == 0 && x.low_open); }
bool is_negative(const Interval& x) { return is_positive(-x); }
bool is_non_negative(const Interval& x) { return x.low >= 0; }
bool is_non_positive(const Interval& x) { return x.high <= 0; }
bool is_finite(const Interval& x) { return std::isfinite(x.low) && std::isfinite(x.high); }

bool lies_within(const Interval& inner, const Interval& outer) { return intersection(inner, outer) == inner; }

bool contains(const Interval& x, double value) {
  return (x.low_open ? value > x.low : value >= x.low) && (x.high_open ? value < x.high : value <= x.high);
}

Interval hull(const Interval& a, const Interval& b) {
  return interval(lower_low(low_of(a), low_of(b)), higher_high(high_of(a), high_of(b)));
}

Interval common(const Interval& a, const Interval& b) {
  const Interval result = intersection(a, b);
  return is_empty(result) ? a : result;
}

Interval operator-(const Interval& x) { return interval(mirrored(high_of(x)), mirrored(low_of(x))); }

Interval operator+(const Interval& a, const Interval& b) {
  Interval sum{a.low + b.low, a.high + b.high, a.low_open || b.low_open, a.high_open || b.high_open};
  if (std::isnan(sum.low)) sum.low = -Interval::kInf;
  if (std::isnan(sum.high)) sum.high = Interval::kInf;
  return rounded(sum);
}

Interval operator*(const Interval& a, const Interval& b) {
  const std::array products{product(low_of(a), low_of(b)), product(low_of(a), high_of(b)),
                            product(high_of(a), low_of(b)), product(high_of(a), high_of(b))};
  End low = products[0], high = products[0];
  for (const End& end : products) low = lower_low(low, end), high = higher_high(high, end);
  return rounded(interval(low, high));
}

/// Numbers of both signs may be arbitrarily close to zero: any number may be a reciprocal of theirs. An upper end that
/// is infinite leaves the lower end of the reciprocals open, since the numbers themselves are finite.
Interval reciprocal(const Interval& x) {
  if (x.low <= 0 && x.high >= 0 && (x.low < 0) == (x.high > 0)) return Interval::all();
  if (x.high <= 0) return -reciprocal(-x);
  const End low{1 / x.high, x.high_open || std::isinf(x.high)};
  const End high{x.low == 0 ? Interval::kInf : 1 / x.low, x.low_open && x.low != 0};
  return rounded(interval(low, high));
}

Interval smaller(const Interval& a, const Interval& b) {
  return interval(lower_low(low_of(a), low_of(b)), lower_high(high_of(a), high_of(b)));
}

Interval larger(const Interval& a, const Interval& b) { return -smaller(-a, -b); }

/// An end that is a number of f32 stays: no number on its side is rounded beyond it.
Interval rounded(const Interval& exact) {
  const auto is_single = [](double end) { return static_cast<double>(static_cast<float>(end)) == end; };
  const Interval wide = widened(exact, kSingleRounding);
  return {is_single(exact.low) ? exact.low : wide.low, is_single(exact.high) ? exact.high : wide.high, exact.low_open,
          exact.high_open};
}

Interval widened(const Interval& x, double relative) {
  Interval result = x;
  result.low -= std::isinf(x.low) ? 0 : std::abs(x.low) * relative;
  result.high += std::isinf(x.high) ? 0 : std::abs(x.high) * relative;
  return result;
}

}  // namespace moxie
