#pragma once
// What an expression costs to evaluate, in multiply-adds.
#include "compiler/expression/expr.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// Multiply-adds that a random number costs.
constexpr double kRandomCost = 30;
/// Multiply-adds that the call itself costs, without its arguments.
double operation_cost(const Expr& expr);
/// Number of multiply-adds that one evaluation costs, with the loops of reductions counted at `loop_extent`
/// iterations where their extent is not known.
double cost(const Expr& expr, double loop_extent = 16);

/// Whether the loop of the reduction is the one that counts where it stands: it is long, or inside of no long loop a
/// vector's length of costly terms, such as the gradient of what a batch of 32 shares. A definition of its own, and
/// loops of its own, are little beside it then.
bool is_over_samples(const Expr& reduction, const Scope& scope);

}  // namespace moxie
