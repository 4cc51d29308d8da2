#pragma once
// CheckWriter: the statements that instrumentation adds to a LoopProgram.
#include <optional>
#include <string>
#include <vector>

#include "compiler/loop/instrument.h"

namespace moxie {

/// Something that is read or written at subscripts.
struct Place {
  std::string name;
  std::vector<Affine> extents;
};

class CheckWriter {
 public:
  CheckWriter(LoopProgram& program, const Program& source, const Checks& checks)
      : program_(program), source_(source), checks_(checks) {}

  /// The variable of the vector loop around the current statement.
  std::optional<Symbol> lanes;

  /// Checks an element of a tensor, `value`, as far as nan and negvar are wanted.
  void check_value(Block& out, const std::string& tensor, const std::vector<Affine>& element, ValueId value);
  /// Checks subscripts where `guard` holds; gives whether any of them lies outside, nothing for a scalar.
  std::optional<ValueId> check_subscripts(Block& out, const Place& place, const std::vector<Affine>& subscripts,
                                          std::optional<ValueId> guard);
  /// Checks a subscript that depends on values, where its guard holds.
  void check_subscript(Block& out, const Place& place, const op::Subscript& subscript);
  /// The same for a load; gives the guard behind which it reads nothing outside.
  std::optional<ValueId> check_load(Block& out, const Place& place, const std::vector<Affine>& subscripts,
                                    std::optional<ValueId> guard);

 private:
  ValueId emit(Block& out, ValueType type, bool varying, Operation operation);
  ValueId constant(Block& out, double value, ValueType type) { return emit(out, type, false, op::Constant{value}); }
  ValueId number(Block& out, const Affine& value);
  ValueId call(Block& out, std::string_view function, std::vector<ValueId> args);
  ValueId not_finite(Block& out, ValueId value);
  ValueId outside(Block& out, const ValueDomain& domain, ValueId value);
  void fail_if(Block& out, ValueId bad, CheckDecl decl, const std::vector<Affine>& coordinates, ValueId value);

  LoopProgram& program_;
  const Program& source_;
  Checks checks_;
};

/// The axes of an input or definition.
std::vector<AxisDecl> axes_of(const Program& program, const std::string& tensor);

}  // namespace moxie
