#pragma once
// Geometric progressions: in a loop over t, exp(a*t + b) is what it was in the round before, times a factor that stays
// fixed.
#include <optional>

#include "compiler/expression/expr.h"
#include "compiler/loop/loop_program.h"
#include "compiler/program/program.h"

namespace moxie {

struct Progression {
  Expr first;   // in the first round
  Expr factor;  // from round to round
};

/// The exponential `expr` in a loop over `index` with `range`, if it is a progression. All rounds must be known to be
/// within the numbers of `type`: from zero or infinity no factor leads back.
std::optional<Progression> progression_of(const Expr& expr, Symbol index, const Range& range, ValueType type,
                                          const Program& source);

}  // namespace moxie
