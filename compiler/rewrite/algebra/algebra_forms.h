#pragma once
// Forms of expressions that products and sums both look for.
#include <optional>

#include "compiler/expression/expr.h"

namespace moxie {

/// The constant 1.
const Expr& one();
/// The value of a constant that is an integer between -64 and 64: a power that is taken by multiplication.
std::optional<int> small_integer(const Expr& expr);
/// True for sums of index values and numbers: polynomials in the indices, over which products distribute.
bool is_index_polynomial(const Expr& expr);

}  // namespace moxie
