#pragma once
// Short ragged ranges as bounding boxes with predicates: a loop of constant extent can be unrolled. Of longer ranges,
// each lane runs through its own, but the elements of a register tile run through one box together.
#include "compiler/expression/expr.h"

namespace moxie {

/// The expression with every reduction whose range `index` moves, and whose bounding box is short, over that box:
/// iterations outside are masked by where(inside, body, neutral). `range` is the one of `index`.
Expr box_reductions(const Expr& expr, Symbol index, const Range& range);
/// The same for ranges of any length: `index` counts the elements of a register tile.
Expr box_reductions_of_tile(const Expr& expr, Symbol index, const Range& range);

}  // namespace moxie
