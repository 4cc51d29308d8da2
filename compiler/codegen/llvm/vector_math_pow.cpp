// pow, with the special cases of C's pow. Small whole exponents are multiplied out, beside a square root where a half
// is left; else x^y = e^(y log|x|), with the logarithm and the product in two words each, for their error is
// multiplied by up to 700 (in f32, 88).
#include <algorithm>
#include <optional>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

/// More multiplications than this lose more digits than the general power.
constexpr int kMostMultiplied = 16, kMostBesideRoot = 7;

/// By squaring, so that the powers of a series share what they have in common.
Vec whole_power(const Vec& x, int n) {
  if (n == 0) return constant(x, 1);
  if (n == 1) return x;
  const Vec half = whole_power(x, n / 2);
  return n % 2 == 0 ? half * half : half * half * x;
}

/// x^(n + 1/2). As C's pow, it is +0 at -0 and infinite at minus infinity.
Vec half_power(const Vec& x, int n) { return abs(whole_power(x, n) * sqrt(select(equal(x, -kInf), kInf, x))); }

/// The power, where the exponent is a constant for which there is something better than logarithms.
std::optional<Vec> constant_power(const Vec& x, const Vec& y) {
  const auto is = [&](double exponent) { return constant(y, exponent).val.text == y.val.text; };
  for (int n = 0; n <= kMostMultiplied; ++n) {
    if (is(n)) return whole_power(x, n);
    if (is(-n)) return 1 / whole_power(x, n);
  }
  if (is(0.5)) return sqrt(x);
  if (is(-0.5)) return 1 / sqrt(x);
  for (int n = 1; n <= kMostBesideRoot; ++n) {
    if (is(n + 0.5)) return half_power(x, n);
    if (is(-n - 0.5)) return 1 / half_power(x, n);
  }
  return std::nullopt;
}

/// A number as high + low, the low part much smaller.
struct TwoWords {
  Vec high, low;
};

/// 2/3, high with half a mantissa.
struct TwoThirds {
  double high, low;
};
TwoThirds two_thirds(const Vec& x) {
  if (x.val.type == Scalar::f32) return {0x1.554p-1, 0x1.555556p-13};
  return {0x1.5555554p-1, 0x1.5555555555555p-29};
}

Vec upper_bits(const Vec& x) { return real(bits(x) & format(x).high_half); }

/// s = f / (2 + f)
TwoWords quotient(const Vec& f) {
  const Vec divisor = 2 + f;
  const Vec inverse = 1 / divisor;
  const Vec high = upper_bits(f * inverse), divisor_high = upper_bits(divisor);
  const Vec divisor_low = f - (divisor_high - 2);
  return {high, inverse * ((f - high * divisor_high) - high * divisor_low)};
}

/// log(1 + f) = 2 artanh s = 2/3 s (3 + s^2 + 3/2 s^4 T(s^2)), as in fdlibm's e_pow.c.
TwoWords log_near_one_two_words(const Vec& f) {
  const auto [s_high, s_low] = quotient(f);
  const Vec s = s_high + s_low, square = s * s, square_high = s_high * s_high;
  const Vec rest =
      s_low * (s_high + s) + 1.5 * (square * square) * polynomial(square, table::kLogTailF32, table::kLogTailF64);
  const Vec factor_high = upper_bits(3 + square_high + rest);
  const Vec factor_low = rest - ((factor_high - 3) - square_high);
  const Vec product = s_high * factor_high;
  const Vec product_rest = s_low * factor_high + factor_low * s;
  const Vec high = upper_bits(product + product_rest);
  const Vec low = product_rest - (high - product);
  const TwoThirds thirds = two_thirds(f);
  return {thirds.high * high, thirds.low * high + low * (2.0 / 3)};
}

/// log x, high with half a mantissa.
TwoWords log_two_words(const Vec& x) {
  const auto [k, f] = split_for_log(x);
  const auto [near_one, near_one_low] = log_near_one_two_words(f);
  const Vec exponent_part = k * format(x).ln2_high;
  const Vec sum = exponent_part + near_one;
  const Vec low = ((exponent_part - sum) + near_one) + (near_one_low + k * format(x).ln2_low);
  const Vec high = upper_bits(sum + low);
  return {high, low - (high - sum)};
}

Vec positive_pow(const Vec& x, const Vec& y) {
  const auto [log_high, log_low] = log_two_words(x);
  const Vec y_high = upper_bits(y);
  const Vec product = y_high * log_high;
  // Over- and underflows need no second word, which exp_sum() does not take if it is large.
  const Vec rest =
      select(abs(product) < (x.val.type == Scalar::f32 ? 200 : 2000), (y - y_high) * log_high + y * log_low, 0);
  return exp_sum(product, rest);
}

/// With the special cases: bases that are negative, zero or infinite, and NaN.
Vec full_pow(const Vec& x, const Vec& y) {
  const Vec magnitude = abs(x);
  const Vec limited = at_least(at_most(y, 0x1p64), -0x1p64);  // over- and underflows already, unless x is one
  const Vec power = positive_pow(magnitude, limited);

  const Vec zero = equal(magnitude, 0), infinite = equal(magnitude, kInf);
  const Vec at_zero = select(y < 0, constant(y, kInf), select(y > 0, constant(y, 0), y));
  const Vec at_infinity = select(y < 0, constant(y, 0), select(y > 0, constant(y, kInf), y));
  const Vec size = select(zero, at_zero, select(infinite, at_infinity, power));

  const Vec whole = equal(floor(y), y), even = equal(floor(0.5 * y), 0.5 * y);
  const Vec of_negative = select(even, size, select(whole, -size, select(zero | infinite, size, kNaN)));
  const Vec finite_base = select(bits(x) < 0, of_negative, select(x >= 0, size, x));
  return select(equal(y, 0) | equal(x, 1), 1, finite_base);
}

/// Most bases are positive and finite, and most exponents moderate.
Vec general_pow(const Vec& x, const Vec& y) {
  const Vec is_usual = (x > 0) & (x < kInf) & (abs(y) < 0x1p31);
  return unless(!is_usual, positive_pow(x, y), [&] { return full_pow(x, y); });
}

}  // namespace

Vec pow(const Vec& x, const Vec& y) {
  if (const auto power = constant_power(x, y)) return *power;
  return general_pow(x, y);
}

}  // namespace moxie::llvm_ir
