#pragma once
// Conditions around a matrix that becomes a definition.
#include <optional>
#include <vector>

#include "compiler/diff/inversion.h"
#include "compiler/program/program.h"

namespace moxie {

/// The loops and conditions around an expression.
struct GuardedPlace {
  IterationDomain domain;
  std::vector<Expr> conditions = {};

  GuardedPlace in_loop(Symbol index, const Range& range) const;
  GuardedPlace where(const Expr& condition, bool truth) const;
};

/// The definition of which an operand is a part: `known` has every tensor that the operand reads.
struct OperandReader {
  const Program& known;
  std::optional<Scan> scan;
};

/// The indices around the operand that it depends on: the step of the scan, too, if it reads what the scan computes.
std::vector<Symbol> variables_of(const OperandReader& reader, const Expr& operand, const IterationDomain& domain);

/// The conditions under which the operand has to be computed, as far as they are the same for all elements that share
/// it. Where only other indices, or the ends of loops, keep its accesses inside their tensors, these as well.
std::vector<Expr> conditions_of_operand(const OperandReader& reader, const Expr& operand, const GuardedPlace& place);

/// where(all of `conditions`, operand, otherwise)
Expr guarded_operand(const std::vector<Expr>& conditions, const Expr& operand, const Expr& otherwise);

}  // namespace moxie
