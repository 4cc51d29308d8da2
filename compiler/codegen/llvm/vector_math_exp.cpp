// exp and its relatives. e^x = 2^k e^r with k = rint(x / ln 2), |r| <= ln(2)/2; 2^k is added to the exponent's bits.
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

/// The last arguments whose exponential is finite and normal.
struct ExpLimits {
  double low, high;
};
ExpLimits exp_limits(const Vec& x) {
  return x.val.type == Scalar::f32 ? ExpLimits{-0x1.5d589ep6, 0x1.62e42ep6}
                                   : ExpLimits{-0x1.6232bdd7abcd2p9, 0x1.62e42fefa39efp9};
}

struct ExpArgument {
  Vec r;
  Vec shifted;  // k * 2^mantissa
};

ExpArgument reduce(const Vec& x) {
  const Format& f = format(x);
  const auto [k, shifted] = round_exponent(x * std::numbers::log2e);
  return {x - k * f.ln2_high - k * f.ln2_low, shifted};
}

/// e^r - 1 without loss near zero.
Vec expm1_reduced(const Vec& r) {
  return r.f32_accuracy ? r * polynomial(r, table::kExpF32) : r + r * r * polynomial(r, table::kExpF64);
}

constexpr double kNothing = -0.0;  // adding it costs nothing: LLVM drops it, which it must not do with +0

/// e^(x + low) where it is a normal number; arbitrary elsewhere.
Vec exp_normal(const Vec& x, const Operand& low) {
  const auto [r, shifted] = reduce(x);
  return real(bits(1 + expm1_reduced(r + low)) + shifted);
}

/// 2^(k + offset)
Vec power_of_two(const Vec& shifted, const Vec& like, int offset) {
  const Format& f = format(like);
  return real(shifted + (f.one + (std::int64_t{offset} << f.mantissa)));
}

/// e^(x + low) with the two AVX-512 instructions made for it. Beyond the limits, the smaller of which gives zero, only
/// infinities would go wrong.
Vec exp_by_scalef(const Vec& x, const Operand& low) {
  const Format& f = format(x);
  const bool single = x.val.type == Scalar::f32;
  const Vec limited = at_least(at_most(x, single ? 89 : 710), single ? -104 : -746);
  const Vec k = x.with(x.builder->unary_intrinsic("rint", (limited * std::numbers::log2e).val));
  const Vec r = limited - k * f.ln2_high - k * f.ln2_low;
  return x.with(x.builder->scalef((1 + expm1_reduced(r + low)).val, k.val));
}

}  // namespace

Vec exp_sum(const Vec& x, const Operand& low) {
  if (x.builder->has_scalef(x.val)) return exp_by_scalef(x, low);
  const ExpLimits limits = exp_limits(x);
  const Vec sum = x + low;
  return select(sum > limits.high, kInf, select(sum < limits.low, 0.0, exp_normal(x, low)));
}

Vec exp(const Vec& x) { return exp_sum(x, kNothing); }

Vec exp_decaying(const Vec& x, const Operand& low) { return select(x < exp_limits(x).low, 0.0, exp_normal(x, low)); }

/// The same with the two AVX-512 instructions made for it, which need no limits.
Vec exp2_by_scalef(const Vec& x) {
  const Vec k = x.with(x.builder->unary_intrinsic("rint", x.val));
  const Vec fraction = x - k;
  const Vec slope = polynomial(fraction, table::kExp2F32, table::kExp2F64);
  return x.with(x.builder->scalef((1 + fraction * slope).val, k.val));
}

Vec exp2_normal(const Vec& x) {
  const auto [k, shifted] = round_exponent(x);
  const Vec fraction = x - k;
  const Vec slope = polynomial(fraction, table::kExp2F32, table::kExp2F64);
  return real(bits(1 + fraction * slope) + shifted);
}

Vec exp2(const Vec& x) {
  if (x.builder->has_scalef(x.val)) return exp2_by_scalef(x);
  // At both limits the fraction is zero and the polynomial exactly one, so that the exponent field alone makes zero and
  // infinity. Below the normal numbers, results fall from min_normal to zero within one step of the exponent.
  const Format& f = format(x);
  return exp2_normal(at_least(at_most(x, f.bias + 1), -f.bias));
}

Vec expm1(const Vec& x) {
  // 2 (2^(k-1) (e^r - 1) + 2^(k-1) - 1/2): one factor of two aside, for k may be one more than an exponent can hold.
  const Vec limited = at_least(at_most(x, x.f32_accuracy ? 89 : 710), x.f32_accuracy ? -20 : -40);
  const auto [r, shifted] = reduce(limited);
  const Vec half_power = power_of_two(shifted, x, -1);
  return 2 * (half_power * expm1_reduced(r) + (half_power - 0.5));
}

Vec tanh(const Vec& x) {
  // e / (e + 2) with e = expm1(2|x|); from the limit on it is exactly one.
  const auto [r, shifted] = reduce(2 * at_most(abs(x), x.f32_accuracy ? 10 : 20));
  const Vec power = power_of_two(shifted, x, 0);
  const Vec e = power * expm1_reduced(r) + (power - 1);
  return copysign(e / (e + 2), x);
}

Vec sigmoid(const Vec& x) { return 1 / (1 + exp(-x)); }

Vec softplus(const Vec& x) {
  // max(x, 0) + log(1 + e^-|x|)
  const Vec e = exp_decaying(-abs(x), kNothing);
  return at_least(x, 0) + (x.f32_accuracy ? e * polynomial(e, table::kLog1pF32) : log1p_finite(e));
}

}  // namespace moxie::llvm_ir
