#pragma once
// Ragged ranges as bounding boxes with predicates, so that lanes can run over the index that moves them.
#include <optional>

#include "compiler/ir/expr.h"

namespace moxie {

/// The expression with every reduction whose range `index` moves over the box of that range: iterations outside are
/// masked by where(inside, body, neutral). `range` is the one of `index`. Nullopt where a box is not bounded by one
/// affine expression.
std::optional<Expr> box_reductions(const Expr& expr, Symbol index, const Range& range);

}  // namespace moxie
