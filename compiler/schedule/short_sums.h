#pragma once
#include "compiler/ir/expr.h"

namespace moxie {

/// Sums over a few constant iterations in an expression inside more than `depth` reductions, and one at least, as the
/// sums of their terms: what a term does not share with the loop around leaves that loop.
Expr with_short_sums_written_out(const Expr& expr, int depth);

/// The expression with the quotients of indices that are affine here in the place of the sums that they are: where f is
/// 4*g + 3, f/4 is g. So copies of a register tile see that they read the same.
Expr with_exact_quotients(const Expr& expr);

}  // namespace moxie
