// The error function and the normal distribution. Tails are e^(-x^2) erfcx(|x|), where x^2 is formed exactly and erfcx,
// smooth and slowly decaying, is one polynomial over all of [0, inf).
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr double kRootHalf = 1 / std::numbers::sqrt2;
constexpr double kInvRootTwoPi = std::numbers::inv_sqrtpi * kRootHalf;

/// An f64 on the way to an f32.
bool has_digits_to_spare(const Vec& x) { return x.f32_accuracy && x.val.type == Scalar::f64; }

/// e^(-factor x^2), with factor 1 or 1/2. The rounding of x^2 alone would cost x^2 ulps: x = h + t with h^2 exact, x^2
/// = h^2 + t (x + h).
Vec gaussian(const Vec& x, double factor) {
  if (has_digits_to_spare(x)) return exp_decaying(-factor * (x * x), -0.0);
  const Vec high = real(bits(x) & format(x).high_half);
  return exp_decaying(-factor * (high * high), -factor * ((x - high) * (x + high)));
}

/// e^(x^2) erfc(x) for x >= 0.
Vec erfcx(const Vec& x) {
  const Vec limited = at_most(x, 0x1p40);  // beyond, nothing changes but infinity would give NaN
  const Vec inverse = 1 / (limited + 4);
  const Vec t = (limited - 4) * inverse;
  return inverse * polynomial(t, table::kErfcxF32, table::kErfcxF64);
}

/// erf(x) for |x| <= 1.
Vec erf_near_zero(const Vec& x) { return x * polynomial(x * x, table::kErfF32, table::kErfF64); }

/// Below this, 1 - erf(x) is more accurate than the tail, and exact at zero.
constexpr double kNearZero = 0.5;

Vec erfc_tail(const Vec& magnitude) { return gaussian(magnitude, 1) * erfcx(magnitude); }

Vec erf_f32(const Vec& x) {
  const Vec magnitude = at_most(abs(x), 4);  // where 1 - erfc rounds to one
  const Vec beyond = 1 - exp2_normal(polynomial(magnitude, table::kErfTailF32));
  return copysign(select(magnitude < 1, erf_near_zero(magnitude), beyond), x);
}

Vec erf_f64(const Vec& x) {
  const Vec magnitude = abs(x);
  return select(magnitude < 1, erf_near_zero(x), copysign(1 - erfc_tail(magnitude), x));
}

Vec log_normal_cdf_f64(const Vec& x) {
  // Right of zero log(1 - tail); left of it -x^2/2 + log(erfcx / 2). One logarithm serves both: erfcx is kept away from
  // zero where x^2/2 outweighs it by far. NaN is on neither side: its square makes it the result, as the bits of a
  // logarithm do not.
  const Vec left = x < 0;
  const Vec scaled = 0.5 * erfcx(abs(x) * kRootHalf);
  const Vec shifted = at_least(scaled - 1, -1 + 0x1p-40);
  const Vec logarithm = log1p_finite(select(left, shifted, -(gaussian(x, 0.5) * scaled)));
  return logarithm - select(x >= 0, 0, 0.5 * x * x);
}

}  // namespace

Vec erf(const Vec& x) { return x.val.type == Scalar::f32 ? erf_f32(x) : erf_f64(x); }

Vec erfc(const Vec& x) {
  const Vec magnitude = abs(x);
  const Vec tail = erfc_tail(magnitude);
  const Vec beyond = select(x < 0, 2 - tail, tail);
  return has_digits_to_spare(x) ? beyond : select(magnitude < kNearZero, 1 - erf_near_zero(x), beyond);
}

Vec normal_cdf(const Vec& x) {
  const Vec scaled = x * kRootHalf;
  const Vec magnitude = abs(scaled);
  const Vec tail = gaussian(x, 0.5) * (0.5 * erfcx(magnitude));
  const Vec beyond = select(x < 0, tail, 1 - tail);
  return has_digits_to_spare(x) ? beyond : select(magnitude < kNearZero, 0.5 + 0.5 * erf_near_zero(scaled), beyond);
}

Vec normal_pdf(const Vec& x) { return kInvRootTwoPi * gaussian(x, 0.5); }
Vec log_normal_cdf(const Vec& x) { return through_f64(x, log_normal_cdf_f64); }

}  // namespace moxie::llvm_ir
