#pragma once
// LoopText: how the parts of a LoopProgram are spelled, in printed programs and in messages.
//
// Nothing here trusts the program: ids that do not exist are spelled too, so that the verifier can quote what it
// refuses.
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie {

class LoopText {
 public:
  explicit LoopText(const LoopProgram& program) : program_(program) {}

  /// Loop variables are spelled by name between enter and leave of their loop, made unique where loops nest under one
  /// name.
  void enter(const stmt::For& loop);
  void leave(const stmt::For& loop) { names_.erase(loop.variable); }

  /// One line: the statement, or a loop's head.
  std::string line(const Statement& statement) const;
  std::string affine(const Affine& value) const;
  std::string list(std::span<const Affine> values) const;
  /// A constant is spelled as its number wherever it is used.
  std::string value(ValueId id) const;

 private:
  std::string symbol(Symbol symbol) const;
  std::string range(const Range& range) const;
  std::string operation(const Value& value) const;
  std::string call(const op::Call& call) const;
  std::string values(std::span<const ValueId> ids, std::string_view separator) const;
  template <class Declarations>
  std::string name_in(const Declarations& declarations, std::uint32_t id, std::string_view kind) const;

  const LoopProgram& program_;
  std::map<Symbol, std::string> names_;
};

/// `f32`, or `<f32>` for one value per lane.
std::string type_text(ValueType type, bool varying);

/// The statement as one line, with the loops around it spelled as print() spells them.
std::string describe(const LoopProgram& program, const Statement& statement);

}  // namespace moxie
