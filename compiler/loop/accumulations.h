#pragma once
// Which vars a loop accumulates, so that code generators may keep several partial results of each.
#include <optional>
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie {

/// A var that the iterations of a loop set once, to what it held combined with a value of their own, and that nothing
/// else in the loop reads.
struct Accumulation {
  VarId var;
  ReduceKind kind;  // Sum, Product, Max or Min
  std::optional<VarId> position =
      {};  // the var that holds the first position of the extremum, where it is searched for
  bool operator==(const Accumulation&) const = default;
};

/// The reduction whose results the call combines, for "+", "*", "max" and "min".
std::optional<ReduceKind> combining_kind(const op::Call& call);

/// `acc + where(c, e, 0)`, or the same of another reduction: the var changes where the condition holds.
struct MaskedTerm {
  ValueId held, where, condition, term;
};
std::optional<MaskedTerm> masked_term(const LoopProgram& program, const op::Call& call);

/// In the order of their statements; none if the loop contains another.
std::vector<Accumulation> accumulations(const LoopProgram& program, const Block& body);

/// The vars in single to which a loop with this body, and the loops inside, do nothing but add: what they hold before
/// may as well be added last. In ascending order.
std::vector<VarId> running_sums(const LoopProgram& program, const Block& body);

}  // namespace moxie
