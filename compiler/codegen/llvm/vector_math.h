#pragma once
// The vectorised mathematics behind emit_function: formulas on Vec, a value that knows its builder.
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "compiler/codegen/llvm/text_builder.h"

namespace moxie::llvm_ir {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A value with the builder that computes with it, so that formulas read as such. Numbers stand for literals of the
/// partner's type.
struct Vec {
  TextBuilder* builder;
  Val val;
  bool f32_accuracy = val.type == Scalar::f32;  // all that is asked: also of an f64 on the way to an f32
  /// Another value of the same computation.
  Vec with(Val other) const { return {builder, std::move(other), f32_accuracy}; }
};

template <typename T>
concept Number = std::is_arithmetic_v<T>;

/// A Vec or a number.
class Operand {
 public:
  Operand(const Vec& vec) : value_(vec) {}
  Operand(Number auto number) : value_(literal(number)) {}
  /// The value, a number as a literal of the type and lanes of `partner`.
  Val as(const Vec& partner) const;

 private:
  using Value = std::variant<Vec, double, std::int64_t>;
  static Value literal(std::floating_point auto number) { return static_cast<double>(number); }
  static Value literal(std::integral auto number) { return static_cast<std::int64_t>(number); }
  Value value_;
};

Vec constant(const Vec& like, const Operand& number);
/// Whether x is a literal other than NaN.
bool is_literal_number(const Vec& x);

// Arithmetic of floating point or of integers, as the type demands.
Vec operator+(const Vec& a, const Operand& b);
Vec operator-(const Vec& a, const Operand& b);
Vec operator*(const Vec& a, const Operand& b);
Vec operator/(const Vec& a, const Operand& b);
Vec operator-(const Vec& a);
Vec operator+(Number auto a, const Vec& b) { return b + a; }
Vec operator*(Number auto a, const Vec& b) { return b * a; }
Vec operator-(Number auto a, const Vec& b) { return constant(b, a) - b; }
Vec operator/(Number auto a, const Vec& b) { return constant(b, a) / b; }

// Comparisons: false for NaN. Of integers: signed.
Vec operator<(const Vec& a, const Operand& b);
Vec operator<=(const Vec& a, const Operand& b);
Vec operator>(const Vec& a, const Operand& b);
Vec operator>=(const Vec& a, const Operand& b);
Vec equal(const Vec& a, const Operand& b);

// Bits, and truth values
Vec operator&(const Vec& a, const Operand& b);
Vec operator|(const Vec& a, const Operand& b);
Vec operator^(const Vec& a, const Operand& b);
Vec operator<<(const Vec& a, int count);
Vec operator>>(const Vec& a, int count);  // logical
Vec operator!(const Vec& truth);
/// The bits of a number as an integer, and back.
Vec bits(const Vec& x);
Vec real(const Vec& integer);

Vec select(const Vec& condition, const Vec& a, const Operand& b);
Vec select(const Vec& condition, Number auto a, const Vec& b) { return select(condition, constant(b, a), b); }
/// `usual`, but what `rare` gives in the lanes that `truth` holds in; `rare` is computed only if there is one.
Vec unless(const Vec& truth, const Vec& usual, const std::function<Vec()>& rare);
/// min and max with a limit; NaN stays NaN.
Vec at_most(const Vec& x, const Operand& limit);
Vec at_least(const Vec& x, const Operand& limit);
Vec abs(const Vec& x);
Vec copysign(const Vec& magnitude, const Vec& sign);
Vec floor(const Vec& x);
/// x less the nearest integer, in [-1/2, 1/2]; exact. NaN of infinities.
Vec fraction(const Vec& x);
Vec sqrt(const Vec& x);
/// coefficients[0] + coefficients[1] x + ...
Vec polynomial(const Vec& x, std::span<const double> coefficients);
/// The polynomial that suits the accuracy asked for.
Vec polynomial(const Vec& x, std::span<const double> for_f32, std::span<const double> for_f64);
/// f(x), computed in f64 whatever the type of x.
Vec through_f64(const Vec& x, Vec (*f)(const Vec&));
Vec to_f64(const Vec& x);
Vec to_f32(const Vec& x);

/// The layout of f32 or f64, as far as the algorithms need it.
struct Format {
  int mantissa;  // bits
  int bias;
  std::int64_t one;        // bits of 1
  std::int64_t root_half;  // bits of sqrt(1/2)
  std::int64_t high_half;  // clears the lower half of the mantissa: the square of what remains is exact
  double round;            // 1.5 * 2^mantissa: adding it rounds to an integer, which then stands in the lowest bits
  double two_mantissa;     // 2^mantissa
  double min_normal;
  double ln2_high, ln2_low;  // ln 2; the product of the high part with an exponent is exact
};
const Format& format(const Vec& x);

/// x rounded to an integer k: as a number, and k * 2^mantissa in the integer type, to be added to an exponent.
struct RoundedExponent {
  Vec number, shifted;
};
RoundedExponent round_exponent(const Vec& x);

// ---- vector_math_exp.cpp ----
Vec exp(const Vec& x);
/// e^(x + low), |low| much smaller than |x|.
Vec exp_sum(const Vec& x, const Operand& low);
/// The same for x <= 0 or NaN, where underflow is the only limit.
Vec exp_decaying(const Vec& x, const Operand& low);
Vec exp2(const Vec& x);
/// 2^x where it is a normal number.
Vec exp2_normal(const Vec& x);
Vec expm1(const Vec& x);
Vec tanh(const Vec& x);
Vec sigmoid(const Vec& x);
Vec softplus(const Vec& x);

// ---- vector_math_log.cpp ----
Vec log(const Vec& x);
Vec log2(const Vec& x);
Vec log1p(const Vec& x);
/// log for 0 < x < inf.
Vec log_finite(const Vec& x);
/// log1p for -1 < x < inf.
Vec log1p_finite(const Vec& x);
/// log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2).
Vec log_near_one(const Vec& f);
/// x = 2^exponent (1 + f), for x positive and finite, subnormal numbers included.
struct LogArgument {
  Vec exponent, f;
};
LogArgument split_for_log(const Vec& x);
/// For x normal, too.
LogArgument split_normal_for_log(const Vec& x);
Vec log_of_split(const LogArgument& argument);

// ---- vector_math_pow.cpp ----
Vec pow(const Vec& x, const Vec& y);

// ---- vector_math_trig.cpp ----
Vec sin(const Vec& x);
Vec cos(const Vec& x);
/// sin for |x| <= pi/2.
Vec sin_reduced(const Vec& x);

// ---- vector_math_erf.cpp ----
Vec erf(const Vec& x);
Vec erfc(const Vec& x);
Vec normal_cdf(const Vec& x);
Vec normal_pdf(const Vec& x);
Vec log_normal_cdf(const Vec& x);

// ---- vector_math_gamma.cpp ----
Vec lgamma(const Vec& x);
Vec digamma(const Vec& x);
Vec trigamma(const Vec& x);

// ---- vector_math_inverse.cpp ----
Vec atan(const Vec& x);
Vec atan2(const Vec& y, const Vec& x);
Vec asin(const Vec& x);
Vec acos(const Vec& x);
Vec erfinv(const Vec& x);

// ---- vector_math_bessel.cpp ----
Vec i0e(const Vec& x);
Vec i1e(const Vec& x);

// ---- vector_math_random.cpp: what compiler/arithmetic/philox.h defines, of words in lanes of i32 ----
/// In double.
Vec uniform_from_word(const Vec& word);
/// The two factors of a normal number.
Vec radius_from_word(const Vec& word, Scalar type);
Vec cosine_from_word(const Vec& word, Scalar type);

/// The largest error of a lowering in units in the last place of the result. Subnormal results may be anything from
/// zero to the smallest normal number.
struct Accuracy {
  std::string_view function;
  double ulp_f32, ulp_f64;
  double absolute_f64 = 0;  // an error that is right too: digamma near its root
};
/// One row for each function that is not exact.
std::span<const Accuracy> accuracies();

}  // namespace moxie::llvm_ir
