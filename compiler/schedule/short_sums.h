#pragma once
#include "compiler/expression/expr.h"

namespace moxie {

/// Sums over a few constant iterations in an expression inside more than `depth` reductions, and one at least, as the
/// sums of their terms: what a term does not share with the loop around leaves that loop.
Expr with_short_sums_written_out(const Expr& expr, int depth);

}  // namespace moxie
