#include "compiler/rewrite/patterns/index_pairs.h"

namespace moxie {

Expr swapped(const Algebra& algebra, const Expr& expr, Symbol a, Symbol b) {
  return algebra.normalise(substitute(expr, {{a, Affine(b)}, {b, Affine(a)}}));
}

bool is_symmetric(const Algebra& algebra, const Expr& expr, Symbol a, Symbol b) {
  return expr->depends_on(a) && expr->depends_on(b) && swapped(algebra, expr, a, b) == algebra.normalise(expr);
}

std::optional<Expr> in_sum_of_indices(const Algebra& algebra, const Expr& expr, Symbol a, Symbol b, Symbol sum) {
  if (!expr->depends_on(a) || !expr->depends_on(b)) return std::nullopt;
  const Expr candidate = algebra.normalise(substitute(expr, {{a, Affine(sum) - Affine(b)}}));
  return candidate->depends_on(b) ? std::nullopt : std::optional(candidate);
}

Range pairs_on_diagonal(Symbol sum, const Affine& extent) {
  const Affine last = extent - Affine(1);
  return {{{1, Affine(0)}, {1, Affine(sum) - last}}, {{1, last}, {1, Affine(sum)}}};
}

}  // namespace moxie
