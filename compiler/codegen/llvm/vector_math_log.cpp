// Logarithms. x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and log x = k ln 2 + log(1 + f).
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

/// The bits of x, raised such that the exponent field steps at sqrt(1/2) 2^n instead of at 2^n.
Vec raised_bits(const Vec& x) { return bits(x) + (format(x).one - format(x).root_half); }

std::int64_t mantissa_mask(const Format& f) { return (std::int64_t{1} << f.mantissa) - 1; }

/// The exponent field as a number: it stands in the mantissa of 2^mantissa, so that no conversion is needed.
Vec biased_exponent(const Vec& raised, const Format& f) {
  const std::int64_t carrier_bits = std::int64_t{f.bias + f.mantissa} << f.mantissa;
  return real((raised >> f.mantissa) | carrier_bits) - f.two_mantissa;
}

/// `value` where the logarithm of x exists, else what takes its place.
Vec with_special_cases(const Vec& x, const Vec& value) {
  const Vec not_positive = select(equal(x, 0), constant(x, -kInf), kNaN);
  return select(x > 0, select(x < kInf, value, x), not_positive);
}

LogArgument split(const Vec& normal, const Operand& bias) {
  const Format& f = format(normal);
  const Vec raised = raised_bits(normal);
  return {biased_exponent(raised, f) - bias, real((raised & mantissa_mask(f)) + f.root_half) - 1};
}

}  // namespace

LogArgument split_for_log(const Vec& x) {
  const Format& f = format(x);
  const int lift = f.mantissa + 1;  // makes every subnormal number normal
  const Vec tiny = x < f.min_normal;
  return split(select(tiny, x * (2 * f.two_mantissa), x), select(tiny, constant(x, f.bias + lift), f.bias));
}

LogArgument split_normal_for_log(const Vec& x) { return split(x, format(x).bias); }

Vec log_near_one(const Vec& f) {
  if (f.val.type == Scalar::f32) return f + f * f * (f * polynomial(f, table::kLogF32) - 0.5);
  // With s = f / (2 + f): log(1 + f) = 2 artanh s = f - (f^2/2 - s (f^2/2 + R(s^2))), the form of fdlibm's e_log.c.
  const Vec s = f / (2 + f);
  const Vec z = s * s;
  const Vec half_square = 0.5 * f * f;
  return f - (half_square - s * (half_square + z * polynomial(z, table::kLogF64)));
}

Vec log_of_split(const LogArgument& argument) {
  const auto& [k, f] = argument;
  const Format& layout = format(f);
  return k * layout.ln2_high + (k * layout.ln2_low + log_near_one(f));
}

Vec log_finite(const Vec& x) { return log_of_split(split_for_log(x)); }

Vec log(const Vec& x) { return with_special_cases(x, log_finite(x)); }

Vec log2(const Vec& x) {
  const auto [k, f] = split_for_log(x);
  return with_special_cases(x, log_near_one(f) * std::numbers::log2e + k);
}

Vec log1p_finite(const Vec& x) {
  // u = 1 + x rounds, but gives k; then f = x 2^-k + (2^-k - 1) rounds once only.
  const Format& f = format(x);
  const Vec raised = raised_bits(1 + x);
  const Vec exponent_bits = raised & ~mantissa_mask(f);
  const Vec scale_bits = (2 * f.one) - exponent_bits;
  const Vec scale = real(select(scale_bits < 0, 0, scale_bits));  // 2^-k, zero where that is too small to matter
  const Vec scaled = real(bits(x) - (exponent_bits - f.one));     // x 2^-k
  return log_of_split({biased_exponent(raised, f) - f.bias, scaled + (scale - 1)});
}

Vec log1p(const Vec& x) { return with_special_cases(1 + x, log1p_finite(x)); }

}  // namespace moxie::llvm_ir
