#pragma once
#include "compiler/program/program.h"

namespace moxie {

/// Whether the expression is an `and` or an `or`.
bool joins_conditions(const Expr& expr);

/// The body of the definition, in which conditions are taken in their order: what `and` reads on the right of a
/// condition, `j >= 2 and x[j-2] > 0`, it reads where that condition holds; what `or` reads, where it does not. Only
/// elements that may be missing otherwise get such a guard.
Expr with_ordered_conditions(const Program& program, const Definition& definition);

}  // namespace moxie
