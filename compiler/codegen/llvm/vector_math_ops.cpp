// Operators on Vec, and the few instructions that need care with NaN.
#include <cmath>

#include "compiler/codegen/llvm/vector_math.h"

namespace moxie::llvm_ir {
namespace {

bool is_float(const Val& a) { return a.type == Scalar::f32 || a.type == Scalar::f64; }

Vec compare(const Vec& a, const Operand& b, std::string_view real_predicate, std::string_view integer_predicate) {
  const Val other = b.as(a);
  TextBuilder& builder = *a.builder;
  return a.with(is_float(a.val) ? builder.fcmp(real_predicate, a.val, other)
                                : builder.icmp(integer_predicate, a.val, other));
}

Vec integer_op(std::string_view opcode, const Vec& a, const Operand& b) {
  return a.with(a.builder->binary(opcode, a.val, b.as(a)));
}

constexpr Format kSingle{23,       127,    0x3F800000, 0x3F3504F3, ~std::int64_t{0xFFF},
                         0x1.8p23, 0x1p23, 0x1p-126,   0x1.63p-1,  -0x1.bd0105c610ca8p-13};
constexpr Format kDouble{52,       1023,   0x3FF0000000000000, 0x3FE6A09E667F3BCD,   ~std::int64_t{0x7FFFFFF},
                         0x1.8p52, 0x1p52, 0x1p-1022,          0x1.62e42fee00000p-1, 0x1.a39ef35793c76p-33};

/// For |x| < 2^mantissa: adding that leaves no place for a fraction. (Not the intrinsic: without SSE4.1 it is a call of
/// an outside function.)
Vec nearest_integer(const Vec& x) {
  const double two_mantissa = format(x).two_mantissa;
  return copysign((abs(x) + two_mantissa) - two_mantissa, x);
}

}  // namespace

const Format& format(const Vec& x) { return x.val.type == Scalar::f32 ? kSingle : kDouble; }

Val Operand::as(const Vec& partner) const {
  if (const Vec* vec = std::get_if<Vec>(&value_)) return vec->val;
  const Val& like = partner.val;
  if (!is_float(like)) return partner.builder->integer(like.type, like.lanes, std::get<std::int64_t>(value_));
  const double* real = std::get_if<double>(&value_);
  const double number = real != nullptr ? *real : static_cast<double>(std::get<std::int64_t>(value_));
  return partner.builder->number(like.type, like.lanes, number);
}

Vec constant(const Vec& like, const Operand& number) { return like.with(number.as(like)); }

bool is_literal_number(const Vec& x) {
  const std::optional<double> value = literal_value(x.val);
  return value && !std::isnan(*value);
}

Vec operator+(const Vec& a, const Operand& b) {
  return is_float(a.val) ? a.with(a.builder->fadd(a.val, b.as(a))) : integer_op("add", a, b);
}
Vec operator-(const Vec& a, const Operand& b) {
  return is_float(a.val) ? a.with(a.builder->fsub(a.val, b.as(a))) : integer_op("sub", a, b);
}
Vec operator*(const Vec& a, const Operand& b) {
  return is_float(a.val) ? a.with(a.builder->fmul(a.val, b.as(a))) : integer_op("mul", a, b);
}
Vec operator/(const Vec& a, const Operand& b) { return a.with(a.builder->fdiv(a.val, b.as(a))); }
Vec operator-(const Vec& a) { return a.with(a.builder->fneg(a.val)); }

Vec operator<(const Vec& a, const Operand& b) { return compare(a, b, "olt", "slt"); }
Vec operator<=(const Vec& a, const Operand& b) { return compare(a, b, "ole", "sle"); }
Vec operator>(const Vec& a, const Operand& b) { return compare(a, b, "ogt", "sgt"); }
Vec operator>=(const Vec& a, const Operand& b) { return compare(a, b, "oge", "sge"); }
Vec equal(const Vec& a, const Operand& b) { return compare(a, b, "oeq", "eq"); }

Vec operator&(const Vec& a, const Operand& b) { return integer_op("and", a, b); }
Vec operator|(const Vec& a, const Operand& b) { return integer_op("or", a, b); }
Vec operator^(const Vec& a, const Operand& b) { return integer_op("xor", a, b); }
Vec operator<<(const Vec& a, int count) { return integer_op("shl", a, count); }
Vec operator>>(const Vec& a, int count) { return integer_op("lshr", a, count); }
Vec operator!(const Vec& truth) { return truth ^ 1; }

Vec bits(const Vec& x) {
  return x.with(x.builder->bitcast(x.val, x.val.type == Scalar::f32 ? Scalar::i32 : Scalar::i64));
}
Vec real(const Vec& integer) {
  return integer.with(
      integer.builder->bitcast(integer.val, integer.val.type == Scalar::i32 ? Scalar::f32 : Scalar::f64));
}

Vec select(const Vec& condition, const Vec& a, const Operand& b) {
  return a.with(a.builder->select(condition.val, a.val, b.as(a)));
}

Vec unless(const Vec& truth, const Vec& usual, const std::function<Vec()>& rare) {
  const auto chosen = [&] { return select(truth, rare(), usual).val; };
  return usual.with(usual.builder->unless_any(truth.val, usual.val, chosen));
}

// The comparison is false for NaN, which then comes through: exactly what the min and max instructions of x86 do.
Vec at_most(const Vec& x, const Operand& limit) { return select(x > limit, constant(x, limit), x); }
Vec at_least(const Vec& x, const Operand& limit) { return select(x < limit, constant(x, limit), x); }

Vec abs(const Vec& x) { return x.with(x.builder->unary_intrinsic("fabs", x.val)); }
Vec floor(const Vec& x) {
  const Vec nearest = nearest_integer(x);
  return select(abs(x) < format(x).two_mantissa, select(nearest > x, nearest - 1, nearest), x);
}
Vec fraction(const Vec& x) { return x - select(abs(x) < format(x).two_mantissa, nearest_integer(x), x); }
Vec sqrt(const Vec& x) { return x.with(x.builder->unary_intrinsic("sqrt", x.val)); }
Vec copysign(const Vec& magnitude, const Vec& sign) {
  return magnitude.with(magnitude.builder->binary_intrinsic("copysign", magnitude.val, sign.val));
}

Vec polynomial(const Vec& x, std::span<const double> coefficients) {
  Vec sum = constant(x, coefficients.back());
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

Vec polynomial(const Vec& x, std::span<const double> for_f32, std::span<const double> for_f64) {
  return polynomial(x, x.f32_accuracy ? for_f32 : for_f64);
}

Vec through_f64(const Vec& x, Vec (*f)(const Vec&)) { return x.val.type == Scalar::f32 ? to_f32(f(to_f64(x))) : f(x); }

Vec to_f64(const Vec& x) { return x.with(x.builder->convert(x.val, Scalar::f64)); }
Vec to_f32(const Vec& x) { return x.with(x.builder->convert(x.val, Scalar::f32)); }

RoundedExponent round_exponent(const Vec& x) {
  const Vec shifted = x + format(x).round;
  return {shifted - format(x).round, bits(shifted) << format(x).mantissa};
}

}  // namespace moxie::llvm_ir
