// lgamma, digamma and trigamma of positive arguments, always in f64. Not positive: lgamma and its derivatives give NaN, at zero
// their limit from the right.
#include <limits>
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

using F64Function = Vec (*)(const Vec&);

/// f for x > 0, `pole` at zero, NaN elsewhere. Computed in f64 whatever the type.
Vec on_positive(const Vec& x, F64Function f, double pole) {
  const Vec wide = to_f64(x);
  const Vec value = select(wide > 0, f(wide), select(equal(wide, 0), constant(wide, pole), kNaN));
  return x.single() ? to_f32(value) : value;
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
  return select(high, stirling, central);
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
  return log(w) - (0.5 * inverse + square * polynomial(square, table::kDigamma)) - sum;
}

Vec trigamma_f64(const Vec& x) {
  const auto [w, sum] = raise(x, 2);
  const Vec inverse = 1 / w;
  const Vec square = inverse * inverse;
  return sum + (inverse + (0.5 * square + inverse * square * polynomial(square, table::kTrigamma)));
}

}  // namespace

Vec lgamma(const Vec& x) { return on_positive(x, lgamma_f64, kInf); }
Vec digamma(const Vec& x) { return on_positive(x, digamma_f64, -kInf); }
Vec trigamma(const Vec& x) { return on_positive(x, trigamma_f64, kInf); }

}  // namespace moxie::llvm_ir
