#include <algorithm>

#include "compiler/analysis/value_ranges.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// Whether the iterations of the loop save more than one more exponential costs, if what stays fixed in them is
/// computed once. Long loops have a table of it in any case, which is multiplied into other factors that stay fixed.
bool pays_for_exponential(const Expr& fixed, const Range& range) {
  return is_long(range) || (assumed_extent(range) - 1) * cost(fixed) > 2 * function("exp").cost;
}

/// exp(a + b) -> exp(a) * exp(b), where b does not depend on `symbol` and a does. Both exponents must be known not to
/// be positive: then neither factor can overflow where the whole does not.
std::optional<Expr> split(const Algebra& algebra, const Expr& exponential, Symbol symbol, const Range& range,
                          ValueRanges& ranges) {
  std::vector<Term> varying;
  std::vector<Term> fixed;
  for (const Term& term : algebra.terms_of(exponential->args[0])) {
    (term.product->depends_on(symbol) ? varying : fixed).push_back(term);
  }
  if (varying.empty() || fixed.empty()) return std::nullopt;
  const Expr a = algebra.make_sum(varying);
  const Expr b = algebra.make_sum(fixed);
  if (!pays_for_exponential(b, range)) return std::nullopt;
  if (!is_non_positive(ranges.of(a)) || !is_non_positive(ranges.of(b))) return std::nullopt;
  return call("exp", {a}) * call("exp", {b});
}

}  // namespace

Program split_exponentials(const Program& program) {
  Program result = program;
  ValueRanges ranges(program);
  const Algebra algebra(program);
  for (Definition& definition : result.definitions) {
    const auto visit_node = [&](const Expr& expr, const Scope& scope) -> Expr {
      if (!is_call(expr, "exp") || !is_call(expr->args[0], "+")) return expr;
      for (const auto& [symbol, range] : scope.open) {
        if (!expr->depends_on(symbol)) continue;
        if (const auto parts = split(algebra, expr, symbol, range, ranges)) return *parts;
      }
      return expr;
    };
    definition.body = rewrite_bottom_up(definition.body, Scope::of(definition), visit_node);
  }
  return result;
}

}  // namespace moxie
