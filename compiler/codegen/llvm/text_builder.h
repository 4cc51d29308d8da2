#pragma once
// TextBuilder: appends LLVM instructions to a text, one SSA name per result. Knows types and lanes, nothing of kernels.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie::llvm_ir {

enum class Scalar : std::uint8_t { i1, i8, i16, i32, i64, f32, f64 };

/// A first-class value: its scalar type, its lanes (1: a scalar), and its text (%name or a literal).
struct Val {
  Scalar type = Scalar::f32;
  int lanes = 1;
  std::string text;
};

/// "<16 x float>", "double", ...
std::string type_name(Scalar type, int lanes);
/// "f32": how the names of intrinsics spell the type.
std::string_view intrinsic_suffix(Scalar type);
bool is_floating(Scalar type);
/// The size of an element in memory.
int bytes_of(Scalar type);
/// As an operand: "<16 x float> %v3".
std::string typed(const Val& value);
/// The number that a floating-point literal, or each lane of one, stands for; nothing for a name.
std::optional<double> literal_value(const Val& value);

class TextBuilder {
 public:
  /// With `avx512`, instructions of AVX-512 may be used where they are shorter.
  explicit TextBuilder(bool avx512 = false) : avx512_(avx512) {}

  // literals
  Val number(Scalar type, int lanes, double value);  // floating point, exact (hexadecimal) text
  Val integer(Scalar type, int lanes, std::int64_t value);
  Val splat(const Val& scalar, int lanes);  // broadcast of a scalar value
  /// Lanes of `a`, which count first, and `b`; both have as many lanes, more than one.
  Val shuffle(const Val& a, const Val& b, const std::vector<int>& from);
  Val shuffle(const Val& a, const std::vector<int>& from) { return shuffle(a, {a.type, a.lanes, "poison"}, from); }
  // floating point; operands agree in type and lanes. Contraction into fma is allowed, nothing else is reordered.
  Val fadd(const Val& a, const Val& b);
  Val fsub(const Val& a, const Val& b);
  Val fmul(const Val& a, const Val& b);
  Val fdiv(const Val& a, const Val& b);
  Val fneg(const Val& a);
  Val unary_intrinsic(std::string_view name, const Val& a);                 // "sqrt", "fabs", "floor", "rint", "trunc"
  Val binary_intrinsic(std::string_view name, const Val& a, const Val& b);  // "copysign", "minnum", "maxnum"
  Val fcmp(std::string_view predicate, const Val& a, const Val& b);
  Val convert(const Val& a, Scalar to);                 // fpext, fptrunc, sitofp, fptosi as the types demand
  Val convert_unsigned(const Val& integer, Scalar to);  // uitofp
  // integers
  Val binary(std::string_view opcode, const Val& a, const Val& b);  // add sub mul and or xor shl lshr ashr sdiv...
  Val icmp(std::string_view predicate, const Val& a, const Val& b);
  Val extend(const Val& a, Scalar to, bool is_signed);  // sext, zext, trunc
  Val bitcast(const Val& a, Scalar to);                 // same number of bits a lane
  // both
  Val select(const Val& condition, const Val& a, const Val& b);
  /// Whether a lane of the truth value holds.
  Val any(const Val& truth);
  /// `usual`, or `rare()` if a lane of the truth value holds: code behind a branch that is seldom taken.
  Val unless_any(const Val& truth, const Val& usual, const std::function<Val()>& rare);
  /// Whether scalef() can be used on values like `a`: one instruction, any finite exponent, under- and overflow as they
  /// should be.
  bool has_scalef(const Val& a) const { return avx512_ && a.lanes == (a.type == Scalar::f32 ? 16 : 8); }
  Val scalef(const Val& a, const Val& exponent);  // a * 2^floor(exponent)
  /// Any instruction: "%x = <text>".
  Val raw(Scalar type, int lanes, std::string_view instruction);
  void line(std::string_view text);            // a line without a result (store, br, label, ...)
  std::string fresh(std::string_view prefix);  // a new name, without the %
  /// A function of the module, or a declaration; each is written once.
  void define(std::string_view text);
  std::string declarations() const;  // of every intrinsic used, and what was defined
  const std::string& text() const { return text_; }

 private:
  Val intrinsic(std::string_view name, std::initializer_list<Val> args);

  bool avx512_;
  std::string text_;
  int next_ = 0;
  std::vector<std::string> declared_;
};

/// The value of a scalar function (a row's name in compiler/expression/functions.h, arithmetic and comparisons
/// included) on vectors; all inlined. f32: at most 4 ulp; f64: bounds stated in vector_math.cpp's table. Throws
/// InternalError for a name without a lowering.
Val emit_function(TextBuilder& builder, std::string_view function, const std::vector<Val>& args);

/// The function of two arguments that a reduction repeats. Throws InternalError for logsumexp, which is no such
/// function.
std::string_view folding_function(ReduceKind kind);

/// Philox4x32-10 with two words of key and four of counter: the four output words. All are lower halves of i64, in
/// lanes or one that all lanes have in common.
std::vector<Val> emit_philox(TextBuilder& builder, const std::vector<Val>& key, const std::vector<Val>& counter);

}  // namespace moxie::llvm_ir
