// Uniform and normal numbers from random words (compiler/arithmetic/philox.h).
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr double kUnit = 0x1p-32;

/// word + 1/2, of a word that is taken as unsigned.
Vec centre(const Vec& word, Scalar type) {
  TextBuilder& ir = *word.builder;
  const Vec number{&ir, ir.convert_unsigned(word.val, type)};
  return number + 0.5;
}

/// log of u = (word + 1/2) 2^-32 in f32. Where u is near one its distance from one is what counts, and that is
/// (~word + 1/2) 2^-32: rounded as u itself, it would lose most of its digits.
Vec log_f32(const Vec& word) {
  constexpr std::int64_t kRootHalfBits = 0xB504F334;  // sqrt(1/2) 2^32, where split_for_log() steps too
  TextBuilder& ir = *word.builder;
  const Vec near_one = word.with(ir.icmp("uge", word.val, constant(word, kRootHalfBits).val));
  const Vec magnitude = centre(select(near_one, word ^ -1, word), Scalar::f32) * kUnit;
  const LogArgument argument = split_normal_for_log(magnitude);
  return log_of_split({select(near_one, 0, argument.exponent), select(near_one, -magnitude, argument.f)});
}

/// cos of (word + 1/2) 2^-32 turns in f32. With d the distance from the nearest whole turn it is the sine of 1/4 - d,
/// which integers give exactly.
Vec cos_turns_f32(const Vec& word) {
  constexpr std::int64_t kQuarter = std::int64_t{1} << 30;
  const Vec distance = select(word < 0, word ^ -1, word);
  const Vec ahead = (kQuarter - 1) - distance;
  const Vec r =
      (Vec{word.builder, word.builder->convert(ahead.val, Scalar::f32)} + 0.5) * (2 * std::numbers::pi * kUnit);
  const Vec square = r * r;
  return r + r * square * polynomial(square, table::kSinF32);
}

}  // namespace

Vec uniform_from_word(const Vec& word) { return centre(word, Scalar::f64) * kUnit; }

Vec radius_from_word(const Vec& word, Scalar type) {
  return sqrt(-2 * (type == Scalar::f32 ? log_f32(word) : log_finite(uniform_from_word(word))));
}

Vec cosine_from_word(const Vec& word, Scalar type) {
  return type == Scalar::f32 ? cos_turns_f32(word) : cos(2 * std::numbers::pi * uniform_from_word(word));
}

}  // namespace moxie::llvm_ir
