#include "compiler/codegen/llvm/stored_elements.h"

#include <fmt/format.h>

#include <limits>

#include "compiler/arithmetic/exact_integer.h"

namespace moxie::llvm_ir {
namespace {

constexpr std::int64_t kSign = 0x80000000, kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

bool has_sign(DType integers) { return info_of(integers).low < 0; }

std::string half_type(int lanes) { return lanes == 1 ? "half" : fmt::format("<{} x half>", lanes); }

}  // namespace

Scalar scalar_of(DType dtype) {
  const bool is_number = is_stored_as_computed(dtype);
  switch (bytes_of(dtype)) {
    case 1:
      return Scalar::i8;
    case 2:
      return Scalar::i16;
    case 4:
      return is_number ? Scalar::f32 : Scalar::i32;
    default:
      return is_number ? Scalar::f64 : Scalar::i64;
  }
}

Val StoredElements::number(const Val& element, DType dtype, Scalar to) {
  if (dtype == DType::f16) return ir_.convert(f16_number(element), to);
  if (dtype == DType::bf16) {
    const Val high = ir_.binary("shl", ir_.extend(element, Scalar::i32, false), bits(16, element.lanes));
    return ir_.convert(ir_.bitcast(high, Scalar::f32), to);
  }
  const bool is_narrow = element.type == Scalar::i8 || element.type == Scalar::i16;
  const Val wide = is_narrow ? ir_.extend(element, Scalar::i32, has_sign(dtype)) : element;
  return ir_.convert(wide, to);
}

Val StoredElements::index(const Val& element, DType dtype) {
  if (dtype != DType::i64) return ir_.extend(element, Scalar::i64, has_sign(dtype));
  const Val low = ir_.integer(Scalar::i64, element.lanes, -kMaxExactInteger);
  const Val high = ir_.integer(Scalar::i64, element.lanes, kMaxExactInteger);
  const Val below = ir_.select(ir_.icmp("slt", element, high), element, high);
  return ir_.select(ir_.icmp("sgt", below, low), below, low);
}

Val StoredElements::element(const Val& number, DType dtype) {
  if (holds_integers(dtype)) return integer_element(ir_.convert(number, Scalar::f64), dtype);
  if (dtype == DType::f16) return f16_element(ir_.convert(number, Scalar::f32));
  if (dtype == DType::bf16) return bf16_element(ir_.convert(number, Scalar::f32));
  return ir_.convert(number, scalar_of(dtype));
}

/// Halves to even. From 2^52 on every number is an integer; below, a sum with that has no room for fractions.
Val StoredElements::nearest_integer(const Val& value) {
  if (converts_) return ir_.unary_intrinsic("rint", value);
  const Val end = ir_.number(Scalar::f64, value.lanes, 0x1p52);
  const Val shift = ir_.binary_intrinsic("copysign", end, value);
  const Val nearest = ir_.fsub(ir_.fadd(value, shift), shift);
  return ir_.select(ir_.fcmp("olt", ir_.unary_intrinsic("fabs", value), end), nearest, value);
}

Val StoredElements::integer_element(const Val& value, DType dtype) {
  const auto bound = [&](double v) { return ir_.number(Scalar::f64, value.lanes, v); };
  if (dtype == DType::boolean) return ir_.extend(ir_.fcmp("une", value, bound(0)), Scalar::i8, false);
  const Val low = bound(info_of(dtype).low), high = bound(info_of(dtype).high);
  const Val nearest = nearest_integer(value);
  if (dtype == DType::i64) return long_element(value, nearest, low, high);
  const Val capped = ir_.select(ir_.fcmp("olt", nearest, high), nearest, high);
  const Val integer = ir_.convert(ir_.select(ir_.fcmp("ogt", value, low), capped, low), Scalar::i32);
  return ir_.extend(integer, scalar_of(dtype), true);
}

/// The upper end, 2^63, is no integer of 64 bits: the largest one stands for it.
Val StoredElements::long_element(const Val& value, const Val& nearest, const Val& low, const Val& high) {
  const Val below = ir_.select(ir_.fcmp("olt", nearest, high), nearest, low);
  const Val integer = ir_.convert(ir_.select(ir_.fcmp("ogt", value, low), below, low), Scalar::i64);
  const Val highest = ir_.integer(Scalar::i64, value.lanes, std::numeric_limits<std::int64_t>::max());
  return ir_.select(ir_.fcmp("oge", value, high), highest, integer);
}

/// No subnormal numbers take part, which a kernel may read as zeros.
Val StoredElements::f16_number(const Val& element) {
  const int lanes = element.lanes;
  if (converts_) {
    const Val half = ir_.raw(Scalar::i16, lanes, fmt::format("bitcast {} to {}", typed(element), half_type(lanes)));
    return ir_.raw(Scalar::f32, lanes,
                   fmt::format("fpext {} {} to {}", half_type(lanes), half.text, type_name(Scalar::f32, lanes)));
  }
  const Val wide = ir_.extend(element, Scalar::i32, false);
  const Val sign = ir_.binary("shl", ir_.binary("and", wide, bits(0x8000, lanes)), bits(16, lanes));
  const Val exponent = ir_.binary("and", wide, bits(0x7c00, lanes));
  const Val shifted = ir_.binary("shl", ir_.binary("and", wide, bits(0x7fff, lanes)), bits(13, lanes));
  constexpr std::int64_t kExponents = std::int64_t{112} << 23;
  const Val normal = ir_.binary("add", shifted, bits(kExponents, lanes));
  const Val beyond = ir_.binary("add", normal, bits(kExponents, lanes));
  const Val mantissa = ir_.convert(ir_.binary("and", wide, bits(0x3ff, lanes)), Scalar::f32);
  const Val subnormal = ir_.bitcast(ir_.fmul(mantissa, ir_.number(Scalar::f32, lanes, 0x1p-24)), Scalar::i32);
  const Val finite = ir_.select(ir_.icmp("eq", exponent, bits(0, lanes)), subnormal, normal);
  const Val magnitude = ir_.select(ir_.icmp("eq", exponent, bits(0x7c00, lanes)), beyond, finite);
  return ir_.bitcast(ir_.binary("or", sign, magnitude), Scalar::f32);
}

/// Below the normal numbers of f16, adding 1/2 rounds to multiples of 2^-24.
Val StoredElements::f16_element(const Val& value) {
  const int lanes = value.lanes;
  if (converts_) {
    const Val half = ir_.raw(Scalar::i16, lanes, fmt::format("fptrunc {} to {}", typed(value), half_type(lanes)));
    return ir_.raw(Scalar::i16, lanes,
                   fmt::format("bitcast {} {} to {}", half_type(lanes), half.text, type_name(Scalar::i16, lanes)));
  }
  const Val all = ir_.bitcast(value, Scalar::i32);
  const Val sign = ir_.binary("lshr", ir_.binary("and", all, bits(kSign, lanes)), bits(16, lanes));
  const Val magnitude = ir_.binary("and", all, bits(kMagnitude, lanes));
  const Val odd = ir_.binary("and", ir_.binary("lshr", magnitude, bits(13, lanes)), bits(1, lanes));
  const Val rounding = ir_.binary("add", odd, bits(0xfff - 0x38000000, lanes));
  const Val normal = ir_.binary("lshr", ir_.binary("add", magnitude, rounding), bits(13, lanes));
  const Val half = ir_.number(Scalar::f32, lanes, 0.5);
  const Val sum = ir_.bitcast(ir_.fadd(ir_.bitcast(magnitude, Scalar::f32), half), Scalar::i32);
  const Val subnormal = ir_.binary("sub", sum, bits(0x3f000000, lanes));
  const Val finite = ir_.select(ir_.icmp("ult", magnitude, bits(0x38800000, lanes)), subnormal, normal);
  const Val bounded = ir_.select(ir_.icmp("uge", magnitude, bits(0x477ff000, lanes)), bits(0x7c00, lanes), finite);
  const Val result = ir_.select(ir_.icmp("ugt", magnitude, bits(kInfinity, lanes)), bits(0x7e00, lanes), bounded);
  return ir_.extend(ir_.binary("or", sign, result), Scalar::i16, false);
}

Val StoredElements::bf16_element(const Val& value) {
  const int lanes = value.lanes;
  const Val all = ir_.bitcast(value, Scalar::i32), high = ir_.binary("lshr", all, bits(16, lanes));
  const Val rounding = ir_.binary("add", ir_.binary("and", high, bits(1, lanes)), bits(0x7fff, lanes));
  const Val rounded = ir_.binary("lshr", ir_.binary("add", all, rounding), bits(16, lanes));
  const Val nan = ir_.binary("or", high, bits(0x40, lanes));
  return ir_.extend(ir_.select(ir_.fcmp("uno", value, value), nan, rounded), Scalar::i16, false);
}

}  // namespace moxie::llvm_ir
