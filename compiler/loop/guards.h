#pragma once
#include "compiler/ir/expr.h"

namespace moxie {

/// Where a condition guards a subscript that could leave its tensor, the condition moves to the access: `where(c, f(x[i-1]), 0)` reads
/// `where(c, x[i-1], 0)`, so that the access alone is conditional and everything around it may be computed always.
Expr guard_accesses(const Expr& expr);

}  // namespace moxie
