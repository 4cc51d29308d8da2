#pragma once
// What statements and operations of a LoopProgram read.
#include <optional>
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie {

/// The values that a statement or an operation reads itself.
std::vector<ValueId> operands(const Operation& operation);
std::vector<ValueId> operands(const LoopProgram& program, const Statement& statement);
/// The expression of indices that a number is; whole constants are such. Nothing for other values.
std::optional<Affine> index_in(const Value& value);
/// Whether the expression changes with the loop variable, by itself or by the values that it mentions.
bool moves_with(const LoopProgram& program, const Affine& affine, Symbol variable);
/// Whether the expression mentions a value that varies between lanes.
bool mentions_varying(const LoopProgram& program, const Affine& affine);

}  // namespace moxie
