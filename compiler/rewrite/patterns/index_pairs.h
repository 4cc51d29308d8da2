#pragma once
// Expressions in two indices of one range: symmetric ones, and those that see the two through their sum only.
#include <optional>

#include "compiler/rewrite/algebra/algebra.h"

namespace moxie {

Expr swapped(const Algebra& algebra, const Expr& expr, Symbol a, Symbol b);
/// `expr` must be in the normal form of the algebra.
bool is_symmetric(const Algebra& algebra, const Expr& expr, Symbol a, Symbol b);
/// The expression in `sum` = a + b, if it depends on a and b through their sum alone.
std::optional<Expr> in_sum_of_indices(const Algebra& algebra, const Expr& expr, Symbol a, Symbol b, Symbol sum);
/// All a in 0..extent for which sum - a lies in 0..extent too.
Range pairs_on_diagonal(Symbol sum, const Affine& extent);

}  // namespace moxie
