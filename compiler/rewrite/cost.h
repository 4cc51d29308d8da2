#pragma once
// What an expression costs to evaluate, in multiply-adds.
#include "compiler/ir/expr.h"

namespace moxie {

/// Multiply-adds that a random number costs.
constexpr double kRandomCost = 30;
/// Multiply-adds that the call itself costs, without its arguments.
double operation_cost(const Expr& expr);
/// Number of multiply-adds that one evaluation costs, with the loops of reductions counted at `loop_extent`
/// iterations where their extent is not known.
double cost(const Expr& expr, double loop_extent = 16);

}  // namespace moxie
