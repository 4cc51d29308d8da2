#pragma once
// Access inversion: which points of an iteration domain read a given element, as loops without search.
#include <vector>

#include "compiler/diff/known_ranges.h"
#include "compiler/expression/expr.h"

namespace moxie {

/// The integer points at which every `nonnegative` is >= 0 and every `zero` is 0. Other symbols are parameters.
struct IterationDomain {
  std::vector<Symbol> variables;  // outermost loop first
  std::vector<Affine> nonnegative;
  std::vector<Affine> zero;
  bool operator==(const IterationDomain&) const = default;
};

/// left == right, with the variables on the left only.
struct Equation {
  Affine left, right;
};

struct SumLoop {
  Symbol index;
  Range range;
};

/// The points of a domain that solve a system of equations: where the guards hold, for every quotient in turn (each of
/// these loops runs once, or never if its division leaves a remainder), for every round of the loops, `point` gives the
/// variables.
struct Preimage {
  Replacement point;
  std::vector<Affine> zero;         // guards: each must be 0
  std::vector<Affine> nonnegative;  // guards: each must be >= 0; these mention no quotient
  std::vector<Affine> derived;      // of the parameters: >= 0 wherever the loops run at all
  std::vector<SumLoop> quotients;
  std::vector<Affine> inner_nonnegative;  // guards that mention quotients
  std::vector<SumLoop> loops;             // outermost first
};

/// Exact over the integers (METHOD.md section 2): diagonal form of the equations, then Fourier-Motzkin elimination of
/// the variables that remain. `known` holds for the parameters and drops guards and bounds that say nothing new.
Preimage invert(const IterationDomain& domain, const std::vector<Equation>& equations, const KnownRanges& known);

/// The sum of `term` over the preimage, without the guards of `zero` and `nonnegative`.
Expr sum_over(const Preimage& preimage, const Expr& term);
/// The same with the guards.
Expr gather(const Preimage& preimage, const Expr& term);

}  // namespace moxie
