#pragma once
// FunctionWriter: the body of a host function as LLVM instructions: integers of 64 bits, pointers, and blocks with one
// entry and one exit.
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/codegen/llvm/text_builder.h"

namespace moxie::aot {

/// An integer of 64 bits, or a truth value.
using Val = llvm_ir::Val;

/// An address.
struct Pointer {
  std::string text;
};

/// A word of eight bytes in an array of such.
using Word = std::int64_t;

/// What the functions of one module share: texts, and declarations of what lies outside.
class ModuleText {
 public:
  /// The text as a constant that ends in a zero byte.
  Pointer text(std::string_view value);
  /// Bytes that the CUDA driver loads as code.
  Pointer image(std::string_view bytes);
  /// A text under a name that others see.
  void publish(const std::string& name, std::string_view value);
  /// A line that declares or defines something; the same line stands there once.
  void declare(const std::string& line);
  void define(const std::string& function) { functions_ += function; }
  /// The module, for the machine's triple.
  std::string print(std::string_view triple) const;

 private:
  std::vector<std::string> lines_;
  std::size_t texts_ = 0;
  std::string functions_;
};

class FunctionWriter {
 public:
  /// `head` is all before the brace: "define i32 @f(i64 %a)".
  FunctionWriter(ModuleText& module, std::string head) : module_(module), head_(std::move(head)) {}

  ModuleText& module() { return module_; }

  // integers
  Val integer(std::int64_t value) { return ir_.integer(llvm_ir::Scalar::i64, 1, value); }
  Val add(const Val& a, const Val& b) { return ir_.binary("add", a, b); }
  Val sub(const Val& a, const Val& b) { return ir_.binary("sub", a, b); }
  Val mul(const Val& a, const Val& b) { return ir_.binary("mul", a, b); }
  Val rem(const Val& a, const Val& b) { return ir_.binary("srem", a, b); }
  Val divide(const Val& a, const Val& b) { return ir_.binary("sdiv", a, b); }  // towards zero
  Val floor_div(const Val& a, std::int64_t divisor);
  Val smaller(const Val& a, const Val& b) { return select(is("slt", a, b), a, b); }
  Val larger(const Val& a, const Val& b) { return select(is("sgt", a, b), a, b); }
  /// Stay at the largest integer where the result is beyond.
  Val saturating_add(const Val& a, const Val& b);
  Val saturating_mul(const Val& a, const Val& b);
  Val is(std::string_view predicate, const Val& a, const Val& b) { return ir_.icmp(predicate, a, b); }
  Val both(const Val& a, const Val& b) { return ir_.binary("and", a, b); }
  Val select(const Val& condition, const Val& a, const Val& b) { return ir_.select(condition, a, b); }

  // memory
  /// Words of the stack, for the whole call.
  Pointer words(std::int64_t count);
  Pointer word(const Pointer& array, std::int64_t index);
  Pointer offset(const Pointer& from, const Val& bytes);
  Pointer select(const Val& condition, const Pointer& a, const Pointer& b);
  Val load(const Pointer& from);
  Pointer load_pointer(const Pointer& from);
  void store(const Pointer& to, const Val& value) { ir_.line("store " + typed(value) + ", ptr " + to.text); }
  void store(const Pointer& to, const Pointer& value) { ir_.line("store ptr " + value.text + ", ptr " + to.text); }
  Val address(const Pointer& pointer);
  Val is_null(const Pointer& pointer);

  // control
  /// body(0), ... body(rounds - 1)
  void loop(const Val& rounds, const std::function<void(const Val&)>& body);
  void when(const Val& condition, const std::function<void()>& body);
  /// Where the condition holds, goes where `body` ends the function.
  void branch(const Val& condition, const std::function<void()>& body);
  /// Ends the function; nothing may follow in the same block.
  void leave(int status);
  /// Ends the function with what another one of the library gives; operands with their types, "ptr %a".
  void leave_with(const std::string& callee, const std::vector<std::string>& operands);
  /// Ends the function where the condition holds, after what `before` does.
  void leave_when(const Val& condition, int status, const std::function<void()>& before);

  /// Anything else.
  llvm_ir::TextBuilder& ir() { return ir_; }
  /// Ends the function with the status and adds it to the module.
  void finish(int status = 0);

 private:
  void jump(const std::string& label) { ir_.line("br label %" + label); }
  void place(const std::string& label) { ir_.line(label + ":"); }
  Pointer pointer(const std::string& instruction);

  ModuleText& module_;
  std::string head_;
  std::string stack_;  // allocations, at the function's entry
  int allocations_ = 0;
  llvm_ir::TextBuilder ir_;
};

}  // namespace moxie::aot
