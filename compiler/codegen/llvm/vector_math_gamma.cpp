// lgamma, digamma and trigamma, always in f64. Arguments that are not positive are seldom: behind a branch they are
// reflected to 1 - x. At its poles lgamma is infinity and trigamma too, digamma NaN, but at zeros -1/x.
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178;
constexpr double kPi = std::numbers::pi;

/// x = 2 + z shifted by an integer, |z| <= 1/2 for x < 8.5: lgamma(x) = lgamma(2 + z) + log(factor) or - log(factor).
struct Shifted {
  Vec z, factor;
};

Shifted shift_up(const Vec& x) {
  const Vec below_half = x < 0.5;
  return {select(below_half, x, x - 1), select(below_half, x * (x + 1), x)};
}

Shifted shift_down(const Vec& x) {
  Shifted shifted{x - 2, constant(x, 1)};
  for (int j = 1; j <= 6; ++j) {  // lgamma(x) = log((x-1)...(x-j)) + lgamma(x-j)
    const Vec above = x >= j + 1.5;
    shifted.factor = shifted.factor * select(above, x - j, 1);
    shifted.z = select(above, x - (j + 2), shifted.z);
  }
  return shifted;
}

Vec lgamma_of_positive(const Vec& x) {
  const Vec low = x < 1.5, high = x >= 8.5;
  const Shifted up = shift_up(x), down = shift_down(x);
  const Vec z = select(low, up.z, down.z);
  const Vec logarithm = log(select(high, x, select(low, up.factor, down.factor)));
  const Vec central = z * polynomial(z, table::kLgamma) + select(low, -logarithm, logarithm);
  const Vec inverse = 1 / x;
  const Vec tail = inverse * polynomial(inverse * inverse, table::kStirling);
  const Vec stirling = (x - 0.5) * (logarithm - 1) + (tail + (kHalfLogTwoPi - 0.5));
  return select(high, stirling, central);
}

Vec lgamma_f64(const Vec& x) {
  return unless(x <= 0, lgamma_of_positive(x), [&] {
    const Vec part = fraction(x);
    const Vec sine = abs(sin_reduced(kPi * part)) * std::numbers::inv_pi;
    const Vec regular = -log(sine) - lgamma_of_positive(1 - x);
    return select(abs(part) > 0, regular, kInf);
  });
}

/// Below 8 the recurrence moves x up by 8; it subtracts sum_j 1/(x+j)^power, kept as one fraction.
struct Raised {
  Vec x, sum;
};

Raised raise(const Vec& x, int power) {
  const Vec low = x < 8;
  const Vec start = select(low, x, 1);
  Vec numerator = constant(x, 1), denominator = power == 1 ? start : start * start;
  for (int j = 1; j < 8; ++j) {
    const Vec term = power == 1 ? start + j : (start + j) * (start + j);
    numerator = numerator * term + denominator;
    denominator = denominator * term;
  }
  return {select(low, x + 8, x), select(low, numerator / denominator, 0)};
}

Vec digamma_of_positive(const Vec& x) {
  const auto [w, sum] = raise(x, 1);
  const Vec inverse = 1 / w;
  const Vec square = inverse * inverse;
  return log(w) - (0.5 * inverse + square * polynomial(square, table::kDigamma)) - sum;
}

Vec digamma_f64(const Vec& x) {
  return unless(x <= 0, digamma_of_positive(x), [&] {
    const Vec part = fraction(x);
    const Vec cotangent = sin_reduced(kPi * (0.5 - abs(part))) / sin_reduced(kPi * part);
    const Vec regular = digamma_of_positive(1 - x) - kPi * cotangent;
    return select(equal(x, 0), -1 / x, select(equal(part, 0), kNaN, regular));
  });
}

Vec trigamma_of_positive(const Vec& x) {
  const auto [w, sum] = raise(x, 2);
  const Vec inverse = 1 / w;
  const Vec square = inverse * inverse;
  const Vec tail = inverse + (0.5 * square + inverse * square * polynomial(square, table::kTrigamma));
  return sum + tail;
}

Vec trigamma_f64(const Vec& x) {
  return unless(x <= 0, trigamma_of_positive(x), [&] {
    const Vec inverse_sine = kPi / sin_reduced(kPi * fraction(x));
    return inverse_sine * inverse_sine - trigamma_of_positive(1 - x);
  });
}

}  // namespace

Vec lgamma(const Vec& x) { return through_f64(x, lgamma_f64); }
Vec digamma(const Vec& x) { return through_f64(x, digamma_f64); }
Vec trigamma(const Vec& x) { return through_f64(x, trigamma_f64); }

}  // namespace moxie::llvm_ir
