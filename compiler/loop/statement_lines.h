#pragma once
// Where the statements of a LoopProgram stand in its printed text: what later stages name as the origin of their lines.
#include <unordered_map>

#include "compiler/loop/lower.h"
#include "compiler/support/line_table.h"

namespace moxie {

/// The line of print(program) on which each statement of this very object begins. Constants are spelled where they are
/// used and have none.
using StatementLines = std::unordered_map<const Statement*, int>;
StatementLines statement_lines(const LoopProgram& program);

/// For every line of print(kernel.program) the definitions that it is part of: numbers from 1 in the order of the
/// comments, which are also the lines of the comments. A statement is part of all definitions whose values depend on
/// it.
LineTable definition_lines(const LoweredKernel& kernel);

}  // namespace moxie
