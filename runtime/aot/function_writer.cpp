#include "runtime/aot/function_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>

namespace moxie::aot {

using llvm_ir::Scalar;
using llvm_ir::typed;

namespace {

/// The bytes of a constant as LLVM spells them.
std::string spelled(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 128 && std::isprint(byte) != 0 && c != '"' && c != '\\';
    text += plain ? std::string(1, c) : fmt::format("\\{:02X}", byte);
  }
  return text;
}

std::string constant_text(std::string_view value, int alignment = 1) {
  return fmt::format("constant [{} x i8] c\"{}\\00\", align {}", value.size() + 1, spelled(value), alignment);
}

}  // namespace

// ---- The module ----

Pointer ModuleText::text(std::string_view value) {
  const std::string constant = "private unnamed_addr " + constant_text(value);
  const auto known = std::ranges::find_if(lines_, [&](const std::string& line) { return line.ends_with(constant); });
  if (known != lines_.end()) return {known->substr(0, known->find(' '))};
  const std::string name = fmt::format("@text.{}", texts_++);
  lines_.push_back(name + " = " + constant);
  return {name};
}

Pointer ModuleText::image(std::string_view bytes) {
  const std::string name = fmt::format("@image.{}", texts_++);
  lines_.push_back(fmt::format("{} = private {}", name, constant_text(bytes, 64)));
  return {name};
}

void ModuleText::publish(const std::string& name, std::string_view value) {
  lines_.push_back(fmt::format("@{} = {}", name, constant_text(value)));
}

void ModuleText::declare(const std::string& line) {
  if (std::ranges::find(lines_, line) == lines_.end()) lines_.push_back(line);
}

std::string ModuleText::print(std::string_view triple) const {
  return fmt::format("target triple = \"{}\"\n\n{}\n\n{}", triple, fmt::join(lines_, "\n"), functions_);
}

// ---- Integers ----

Val FunctionWriter::floor_div(const Val& a, std::int64_t divisor) {
  if (divisor == 1) return a;
  const Val quotient = divide(a, integer(divisor));
  const Val rest = sub(a, mul(quotient, integer(divisor)));
  return select(is("slt", rest, integer(0)), sub(quotient, integer(1)), quotient);
}

Val FunctionWriter::saturating_add(const Val& a, const Val& b) {
  module_.declare("declare i64 @llvm.sadd.sat.i64(i64, i64)");
  return ir_.raw(Scalar::i64, 1, fmt::format("call i64 @llvm.sadd.sat.i64({}, {})", typed(a), typed(b)));
}

Val FunctionWriter::saturating_mul(const Val& a, const Val& b) {
  module_.declare("declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)");
  const std::string both = "%" + ir_.fresh("product");
  ir_.line(fmt::format("{} = call {{i64, i1}} @llvm.smul.with.overflow.i64({}, {})", both, typed(a), typed(b)));
  const Val product = ir_.raw(Scalar::i64, 1, fmt::format("extractvalue {{i64, i1}} {}, 0", both));
  const Val overflow = ir_.raw(Scalar::i1, 1, fmt::format("extractvalue {{i64, i1}} {}, 1", both));
  return select(overflow, integer(std::numeric_limits<std::int64_t>::max()), product);
}

// ---- Memory ----

Pointer FunctionWriter::pointer(const std::string& instruction) {
  const Pointer result{"%" + ir_.fresh("p")};
  ir_.line(result.text + " = " + instruction);
  return result;
}

Pointer FunctionWriter::words(std::int64_t count) {
  const Pointer result{fmt::format("%stack{}", allocations_++)};
  stack_ += fmt::format("  {} = alloca [{} x i64], align 16\n", result.text, std::max<std::int64_t>(count, 1));
  return result;
}

Pointer FunctionWriter::word(const Pointer& array, std::int64_t index) {
  return index == 0 ? array : pointer(fmt::format("getelementptr i64, ptr {}, i64 {}", array.text, index));
}

Pointer FunctionWriter::offset(const Pointer& from, const Val& bytes) {
  return pointer(fmt::format("getelementptr i8, ptr {}, {}", from.text, typed(bytes)));
}

Pointer FunctionWriter::select(const Val& condition, const Pointer& a, const Pointer& b) {
  return pointer(fmt::format("select {}, ptr {}, ptr {}", typed(condition), a.text, b.text));
}

Val FunctionWriter::load(const Pointer& from) { return ir_.raw(Scalar::i64, 1, "load i64, ptr " + from.text); }
Pointer FunctionWriter::load_pointer(const Pointer& from) { return pointer("load ptr, ptr " + from.text); }

Val FunctionWriter::address(const Pointer& pointer) {
  return ir_.raw(Scalar::i64, 1, fmt::format("ptrtoint ptr {} to i64", pointer.text));
}

Val FunctionWriter::is_null(const Pointer& pointer) {
  return ir_.raw(Scalar::i1, 1, fmt::format("icmp eq ptr {}, null", pointer.text));
}

// ---- Control ----

/// The counter lies on the stack, since a body may hold blocks of its own; the optimiser puts it into a register.
void FunctionWriter::loop(const Val& rounds, const std::function<void(const Val&)>& body) {
  const Pointer counter = words(1);
  const std::string test = ir_.fresh("test"), inside = ir_.fresh("round"), after = ir_.fresh("after");
  store(counter, integer(0));
  jump(test);
  place(test);
  const Val round = load(counter);
  ir_.line(fmt::format("br {}, label %{}, label %{}", typed(is("slt", round, rounds)), inside, after));
  place(inside);
  body(round);
  store(counter, add(round, integer(1)));
  jump(test);
  place(after);
}

void FunctionWriter::leave(int status) { ir_.line(fmt::format("ret i32 {}", status)); }

void FunctionWriter::leave_with(const std::string& callee, const std::vector<std::string>& operands) {
  std::vector<std::string> types;
  for (const std::string& operand : operands) types.push_back(operand.substr(0, operand.find(' ')));
  module_.declare(fmt::format("declare hidden i32 @\"{}\"({})", callee, fmt::join(types, ", ")));
  const Val status =
      ir_.raw(Scalar::i32, 1, fmt::format("tail call i32 @\"{}\"({})", callee, fmt::join(operands, ", ")));
  ir_.line("ret " + typed(status));
}

void FunctionWriter::branch(const Val& condition, const std::function<void()>& body) {
  const std::string inside = ir_.fresh("then"), after = ir_.fresh("after");
  ir_.line(fmt::format("br {}, label %{}, label %{}", typed(condition), inside, after));
  place(inside);
  body();
  place(after);
}

void FunctionWriter::when(const Val& condition, const std::function<void()>& body) {
  const std::string end = ir_.fresh("end");
  branch(condition, [&] {
    body();
    jump(end);
  });
  jump(end);
  place(end);
}

void FunctionWriter::leave_when(const Val& condition, int status, const std::function<void()>& before) {
  branch(condition, [&] {
    before();
    leave(status);
  });
}

void FunctionWriter::finish(int status) {
  leave(status);
  module_.define(fmt::format("{} {{\nentry:\n{}{}}}\n\n", head_, stack_, ir_.text()));
}

}  // namespace moxie::aot
