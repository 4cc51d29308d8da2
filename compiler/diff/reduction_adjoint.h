#pragma once
// Derivatives of reductions with respect to one round of their body.
#include "compiler/ir/expr.h"

namespace moxie {

/// d reduction / d body at `opened.index`; `value` is the value of the reduction. Of equal largest (smallest) rounds of
/// Max (Min) the first takes the whole gradient. The derivative of a product never divides, so that it is right where
/// factors are zero.
Expr reduction_derivative(ReduceKind kind, const Expr& value, const OpenedReduce& opened);

}  // namespace moxie
