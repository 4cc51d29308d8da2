#include "compiler/codegen/llvm/text_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace moxie::llvm_ir {
namespace {

struct ScalarInfo {
  std::string_view name;    // in IR text
  std::string_view suffix;  // in the names of intrinsics
  int bits;
  bool floating;
};

constexpr std::array<ScalarInfo, 7> kScalars{{{"i1", "i1", 1, false},
                                              {"i8", "i8", 8, false},
                                              {"i16", "i16", 16, false},
                                              {"i32", "i32", 32, false},
                                              {"i64", "i64", 64, false},
                                              {"float", "f32", 32, true},
                                              {"double", "f64", 64, true}}};

const ScalarInfo& info(Scalar type) { return kScalars[static_cast<std::size_t>(type)]; }

std::string type_of(const Val& value) { return type_name(value.type, value.lanes); }

std::string splat_literal(Scalar type, int lanes, std::string_view literal) {
  return lanes == 1 ? std::string(literal) : fmt::format("splat ({} {})", info(type).name, literal);
}

std::string_view conversion(Scalar from, Scalar to) {
  const ScalarInfo &a = info(from), &b = info(to);
  if (a.floating && b.floating) return a.bits < b.bits ? "fpext" : "fptrunc";
  if (a.floating) return "fptosi";
  if (b.floating) return from == Scalar::i1 ? "uitofp" : "sitofp";
  return a.bits < b.bits ? (from == Scalar::i1 ? "zext" : "sext") : "trunc";
}

std::string overload(std::string_view name, const Val& a) {
  const std::string lanes = a.lanes == 1 ? "" : fmt::format("v{}", a.lanes);
  return fmt::format("@llvm.{}.{}{}", name, lanes, info(a.type).suffix);
}

}  // namespace

std::string type_name(Scalar type, int lanes) {
  return lanes == 1 ? std::string(info(type).name) : fmt::format("<{} x {}>", lanes, info(type).name);
}

std::string_view intrinsic_suffix(Scalar type) { return info(type).suffix; }
bool is_floating(Scalar type) { return info(type).floating; }
int bytes_of(Scalar type) { return std::max(info(type).bits / 8, 1); }

std::string typed(const Val& value) { return fmt::format("{} {}", type_name(value.type, value.lanes), value.text); }

std::optional<double> literal_value(const Val& value) {
  const std::size_t digits = value.text.find("0x");
  if (!info(value.type).floating || value.text.starts_with('%') || digits == std::string::npos) return std::nullopt;
  return std::bit_cast<double>(std::uint64_t{std::stoull(value.text.substr(digits), nullptr, 16)});
}

std::string TextBuilder::fresh(std::string_view prefix) { return fmt::format("{}{}", prefix, next_++); }

Val TextBuilder::raw(Scalar type, int lanes, std::string_view instruction) {
  Val result{type, lanes, "%" + fresh("v")};
  line(fmt::format("{} = {}", result.text, instruction));
  return result;
}

void TextBuilder::line(std::string_view text) {
  const bool label = text.ends_with(':');
  text_ += label ? "" : "  ";
  text_ += text;
  text_ += '\n';
}

void TextBuilder::define(std::string_view text) {
  if (std::ranges::find(declared_, text) == declared_.end()) declared_.emplace_back(text);
}

std::string TextBuilder::declarations() const { return fmt::format("{}", fmt::join(declared_, "")); }

// ---- literals ----

Val TextBuilder::number(Scalar type, int lanes, double value) {
  // LLVM writes floats as the double of equal value, so a float is rounded first.
  const double exact = type == Scalar::f32 ? static_cast<double>(static_cast<float>(value)) : value;
  return {type, lanes, splat_literal(type, lanes, fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(exact)))};
}

Val TextBuilder::integer(Scalar type, int lanes, std::int64_t value) {
  const std::string literal = type == Scalar::i1 ? (value != 0 ? "true" : "false") : fmt::format("{}", value);
  return {type, lanes, splat_literal(type, lanes, literal)};
}

Val TextBuilder::splat(const Val& scalar, int lanes) {
  if (lanes == scalar.lanes) return scalar;
  if (!scalar.text.starts_with('%')) return {scalar.type, lanes, splat_literal(scalar.type, lanes, scalar.text)};
  const std::string type = type_name(scalar.type, lanes);
  const Val first = raw(scalar.type, lanes, fmt::format("insertelement {} poison, {}, i64 0", type, typed(scalar)));
  return raw(scalar.type, lanes,
             fmt::format("shufflevector {0}, {1} poison, <{2} x i32> zeroinitializer", typed(first), type, lanes));
}

Val TextBuilder::shuffle(const Val& a, const Val& b, const std::vector<int>& from) {
  std::string mask;
  for (const int lane : from) mask += fmt::format("{}i32 {}", mask.empty() ? "" : ", ", lane);
  const int lanes = static_cast<int>(from.size());
  return raw(a.type, lanes, fmt::format("shufflevector {}, {}, <{} x i32> <{}>", typed(a), typed(b), lanes, mask));
}

// ---- floating point ----

Val TextBuilder::fadd(const Val& a, const Val& b) { return binary("fadd contract", a, b); }
Val TextBuilder::fsub(const Val& a, const Val& b) { return binary("fsub contract", a, b); }
Val TextBuilder::fmul(const Val& a, const Val& b) { return binary("fmul contract", a, b); }
Val TextBuilder::fdiv(const Val& a, const Val& b) { return binary("fdiv contract", a, b); }
Val TextBuilder::fneg(const Val& a) { return raw(a.type, a.lanes, fmt::format("fneg {}", typed(a))); }

Val TextBuilder::intrinsic(std::string_view name, std::initializer_list<Val> args) {
  const Val& first = *args.begin();
  std::vector<std::string> types, operands;
  for (const Val& arg : args) {
    types.push_back(type_of(arg));
    operands.push_back(typed(arg));
  }
  const std::string callee = overload(name, first);
  const std::string declaration = fmt::format("declare {} {}({})\n", type_of(first), callee, fmt::join(types, ", "));
  define(declaration);
  return raw(first.type, first.lanes, fmt::format("call {} {}({})", type_of(first), callee, fmt::join(operands, ", ")));
}

Val TextBuilder::unary_intrinsic(std::string_view name, const Val& a) { return intrinsic(name, {a}); }
Val TextBuilder::binary_intrinsic(std::string_view name, const Val& a, const Val& b) { return intrinsic(name, {a, b}); }

Val TextBuilder::fcmp(std::string_view predicate, const Val& a, const Val& b) {
  return raw(Scalar::i1, a.lanes, fmt::format("fcmp {} {}, {}", predicate, typed(a), b.text));
}

Val TextBuilder::convert(const Val& a, Scalar to) {
  if (a.type == to) return a;
  return raw(to, a.lanes, fmt::format("{} {} to {}", conversion(a.type, to), typed(a), type_name(to, a.lanes)));
}

Val TextBuilder::convert_unsigned(const Val& integer, Scalar to) {
  return raw(to, integer.lanes, fmt::format("uitofp {} to {}", typed(integer), type_name(to, integer.lanes)));
}

Val TextBuilder::scalef(const Val& a, const Val& exponent) {
  const bool single = a.type == Scalar::f32;
  const std::string type = type_name(a.type, a.lanes);
  const std::string mask = fmt::format("i{}", a.lanes);
  const std::string name = fmt::format("@llvm.x86.avx512.mask.scalef.{}.512", single ? "ps" : "pd");
  const std::string declaration = fmt::format("declare {0} {1}({0}, {0}, {0}, {2}, i32)\n", type, name, mask);
  define(declaration);
  constexpr int kCurrentRounding = 4;
  return raw(a.type, a.lanes,
             fmt::format("call {0} {1}({0} {2}, {0} {3}, {0} zeroinitializer, {4} -1, i32 {5})", type, name, a.text,
                         exponent.text, mask, kCurrentRounding));
}

// ---- integers ----

Val TextBuilder::binary(std::string_view opcode, const Val& a, const Val& b) {
  return raw(a.type, a.lanes, fmt::format("{} {}, {}", opcode, typed(a), b.text));
}

Val TextBuilder::icmp(std::string_view predicate, const Val& a, const Val& b) {
  return raw(Scalar::i1, a.lanes, fmt::format("icmp {} {}, {}", predicate, typed(a), b.text));
}

Val TextBuilder::extend(const Val& a, Scalar to, bool is_signed) {
  if (a.type == to) return a;
  const std::string_view opcode = info(to).bits < info(a.type).bits ? "trunc" : (is_signed ? "sext" : "zext");
  return raw(to, a.lanes, fmt::format("{} {} to {}", opcode, typed(a), type_name(to, a.lanes)));
}

Val TextBuilder::bitcast(const Val& a, Scalar to) {
  return raw(to, a.lanes, fmt::format("bitcast {} to {}", typed(a), type_name(to, a.lanes)));
}

// ---- both ----

Val TextBuilder::select(const Val& condition, const Val& a, const Val& b) {
  return raw(a.type, a.lanes, fmt::format("select {}, {}, {}", typed(condition), typed(a), typed(b)));
}

Val TextBuilder::any(const Val& truth) {
  if (truth.lanes == 1) return truth;
  return raw(Scalar::i1, 1, fmt::format("call i1 @llvm.vector.reduce.or.v{}i1({})", truth.lanes, typed(truth)));
}

Val TextBuilder::unless_any(const Val& truth, const Val& usual, const std::function<Val()>& rare) {
  const std::string before = fresh("before"), inside = fresh("rare"), end = fresh("end"), after = fresh("after");
  line(fmt::format("br label %{0}\n{0}:", before));
  line(fmt::format("br i1 {}, label %{}, label %{}, !prof !{{!\"branch_weights\", i32 1, i32 1048576}}",
                   any(truth).text, inside, after));
  line(inside + ":");
  const Val value = rare();
  line(fmt::format("br label %{0}\n{0}:\n  br label %{1}\n{1}:", end, after));
  return raw(usual.type, usual.lanes,
             fmt::format("phi {} [ {}, %{} ], [ {}, %{} ]", type_of(usual), usual.text, before, value.text, end));
}

}  // namespace moxie::llvm_ir
