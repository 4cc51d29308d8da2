#pragma once
// The arithmetic of adjoints, with the trivial cases folded so that derivatives read like those written by hand.
#include "compiler/expression/expr.h"

namespace moxie {

/// a + b
Expr accumulate(const Expr& a, const Expr& b);
/// local * adjoint. A local derivative where(c, 1, 0) becomes where(c, adjoint, 0), which stays lazy.
Expr chain(const Expr& local, const Expr& adjoint);

}  // namespace moxie
