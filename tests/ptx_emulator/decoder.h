#pragma once
// Decoder: statements to instructions. What this file declares is `decode` of module.h from inside.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx_emulator/names.h"
#include "tests/ptx_emulator/operations.h"
#include "tests/ptx_emulator/syntax.h"

namespace moxie::ptx {

class Decoder {
 public:
  Decoder(const Syntax& syntax, const Places& globals) : syntax_(syntax), names_(kernel_, globals) {}
  Kernel run(const Function& entry);

 private:
  using Words = std::vector<std::string_view>;
  using Form = void (Decoder::*)();
  struct FormName {
    std::string_view head;
    Form form;
  };
  /// The body that is being decoded: that of the kernel, or of a function in place of a call.
  struct Body {
    std::map<std::string_view, std::uint32_t> labels;
    std::vector<std::pair<std::uint32_t, std::string_view>> jumps;  // instructions, and where they go
  };

  void decode_body(const Function& function);
  void decode(const Statement& statement);
  void decode_operation(const Operation& operation);
  // Opcodes of several forms.
  void mov();
  void cvta();
  void cvt();
  void setp();
  void ld();
  void st();
  void atom();
  void bra();
  void call();
  void ret();
  void exit();
  void bar();
  void fence();
  void trap();
  void shfl();
  void vote();
  void activemask();

  // Operands.
  const Argument& argument(std::size_t k) const;
  void expect_arguments(std::size_t count) const;
  Slot value(const Argument& argument, Type type);
  Slot result(const Argument& argument, Type type);
  Register register_of(std::string_view name) const;
  /// The register of an address; `space` becomes that of a name.
  Slot address(const Argument& argument, Space& space);
  Place place_of(std::string_view name) const;
  Places bind(const std::vector<Declaration>& declared, const Argument& given) const;
  Type last_type() const;
  Words qualifiers(std::span<const std::string_view> ignored) const;
  bool has_word(std::string_view word) const;

  Instruction& emit(Step step, std::initializer_list<Slot> slots);
  /// Without the statement's guard: for values that only it uses.
  Slot emit_temporary(const std::string& opcode, std::initializer_list<Slot> operands);
  void emit_memory(Step step, const Argument& where, const Argument& registers, const Register& first, Space space,
                   bool is_store);
  [[noreturn]] void refuse(std::string_view why) const;
  [[noreturn]] void refuse_opcode() const;

  const Syntax& syntax_;
  Kernel kernel_;
  Names names_;
  std::vector<Body> bodies_;
  const Statement* statement_ = nullptr;
  Words words_;  // of the opcode
};

}  // namespace moxie::ptx
