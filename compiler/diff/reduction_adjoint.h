#pragma once
// Derivatives of reductions with respect to one round of their body.
#include "compiler/ir/expr.h"

namespace moxie {

/// d reduction / d body at `opened.index`. Of equal largest (smallest) rounds of Max (Min) the first takes the whole gradient. The derivative
/// of a product never divides, so that it is right where factors are zero.
Expr reduction_derivative(const Expr& reduction, const OpenedReduce& opened);

}  // namespace moxie
