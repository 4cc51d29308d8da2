#include "compiler/rewrite/bounds.h"

#include <algorithm>

#include "compiler/rewrite/algebra.h"

namespace moxie {
namespace {

Interval bounds_of_term(const Term& term) {
  Interval bounds = term.product->is_constant(1) ? Interval{1, 1} : bounds_of(term.product);
  bounds.low *= term.coefficient;
  bounds.high *= term.coefficient;
  if (term.coefficient < 0) std::swap(bounds.low, bounds.high);
  return bounds;
}

}  // namespace

Interval bounds_of(const Expr& expr) {
  if (expr->kind == NodeKind::Constant) return {expr->value, expr->value};
  if (is_call(expr, "min") || is_call(expr, "max")) {
    const bool minimum = is_call(expr, "min");
    const Interval a = bounds_of(expr->args[0]);
    const Interval b = bounds_of(expr->args[1]);
    return minimum ? Interval{std::min(a.low, b.low), std::min(a.high, b.high)}
                   : Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
  }
  if (!is_call(expr, "+") && !is_call(expr, "*") && !is_call(expr, "neg")) return {};
  const std::vector<Term> terms = Algebra::of_reals().terms_of(expr);
  if (terms.size() == 1 && terms[0].product == expr) return {};
  Interval sum{0, 0};
  for (const Term& term : terms) {
    const Interval bounds = bounds_of_term(term);
    sum.low += bounds.low;
    sum.high += bounds.high;
  }
  return sum;
}

}  // namespace moxie
