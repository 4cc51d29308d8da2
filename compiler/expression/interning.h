#pragma once
// Hash-consing: expressions with equal content are the same node.
#include "compiler/expression/expr.h"

namespace moxie {

/// The one node with this content. Fills in what follows from the content: height (except of Reduce and LinearAlgebra,
/// which are given theirs), gathers, free symbols and hashes; `node.free_symbols` must be empty. Any thread may call
/// it.
Expr intern(Node&& node);

}  // namespace moxie
