#pragma once
// Fourier-Motzkin elimination: turns a system of inequalities into nested loops.
#include <vector>

#include "compiler/expression/affine.h"

namespace moxie {

struct Elimination {
  std::vector<Range> ranges;    // of the variables, in the order they were given; each mentions earlier variables only
  std::vector<Affine> given;    // inequalities without any of the variables that were in the system from the start
  std::vector<Affine> derived;  // and those that elimination brought about: wherever one fails, some loop is empty
};

/// Eliminates `variables` (outermost loop first) from the system `rows` >= 0 over the integers; all other symbols are
/// parameters. Throws CompileError for a variable without a lower or upper bound.
Elimination eliminate(const std::vector<Symbol>& variables, const std::vector<Affine>& rows);

/// The inequalities `index` in `range` stands for.
std::vector<Affine> rows_of(Symbol index, const Range& range);

}  // namespace moxie
