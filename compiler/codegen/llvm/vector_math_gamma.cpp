// lgamma, digamma and trigamma of positive arguments, always in f64. Not positive: lgamma and its derivatives give NaN,
// at zero their limit from the right.
#include <limits>
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

/// `value` for positive x, `pole` at zero, NaN elsewhere.
Vec on_positive(const Vec& x, const Vec& value, double pole) {
  return select(x > 0, value, select(equal(x, 0), constant(x, pole), kNaN));
}

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

Vec lgamma_f64(const Vec& x) {
  const Vec low = x < 1.5, high = x >= 8.5;
  const Shifted up = shift_up(x), down = shift_down(x);
  const Vec z = select(low, up.z, down.z);
  const Vec logarithm = log(select(high, x, select(low, up.factor, down.factor)));
  const Vec central = z * polynomial(z, table::kLgamma) + select(low, -logarithm, logarithm);
  const Vec inverse = 1 / x;
  const Vec tail = inverse * polynomial(inverse * inverse, table::kStirling);
  const Vec stirling = (x - 0.5) * (logarithm - 1) + (tail + (kHalfLogTwoPi - 0.5));
  return on_positive(x, select(high, stirling, central), kInf);
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

Vec digamma_f64(const Vec& x) {
  const auto [w, sum] = raise(x, 1);
  const Vec inverse = 1 / w;
  const Vec square = inverse * inverse;
  return on_positive(x, log(w) - (0.5 * inverse + square * polynomial(square, table::kDigamma)) - sum, -kInf);
}

Vec trigamma_f64(const Vec& x) {
  const auto [w, sum] = raise(x, 2);
  const Vec inverse = 1 / w;
  const Vec square = inverse * inverse;
  const Vec tail = inverse + (0.5 * square + inverse * square * polynomial(square, table::kTrigamma));
  return on_positive(x, sum + tail, kInf);
}

}  // namespace

Vec lgamma(const Vec& x) { return through_f64(x, lgamma_f64); }
Vec digamma(const Vec& x) { return through_f64(x, digamma_f64); }
Vec trigamma(const Vec& x) { return through_f64(x, trigamma_f64); }

}  // namespace moxie::llvm_ir
