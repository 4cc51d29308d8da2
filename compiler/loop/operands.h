#pragma once
// What statements and operations of a LoopProgram read.
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie {

/// The values that a statement or an operation reads itself.
std::vector<ValueId> operands(const Operation& operation);
std::vector<ValueId> operands(const LoopProgram& program, const Statement& statement);

}  // namespace moxie
