#pragma once
// Short ragged ranges as bounding boxes with predicates: a loop of constant extent can be unrolled. Of longer ranges,
// each lane runs through its own.
#include "compiler/ir/expr.h"

namespace moxie {

/// The expression with every reduction whose range `index` moves, and whose bounding box is short, over that box:
/// iterations outside are masked by where(inside, body, neutral). `range` is the one of `index`.
Expr box_reductions(const Expr& expr, Symbol index, const Range& range);

}  // namespace moxie
