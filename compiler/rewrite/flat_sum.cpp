#include "compiler/rewrite/flat_sum.h"

namespace moxie {
namespace {

void flatten(const Algebra& algebra, const Expr& expr, FlatSum& flat) {
  if (is_sum(expr)) {
    const OpenedReduce opened = open(expr);
    flat.scope = flat.scope.with(opened.index, opened.range);
    flat.summed.push_back(opened.index);
    flatten(algebra, opened.body, flat);
    return;
  }
  const Product product = algebra.product_of(expr);
  flat.coefficient *= product.coefficient;
  for (const Factor& factor : product.factors) {
    if (factor.power == 1 && is_sum(factor.base))
      flatten(algebra, factor.base, flat);
    else
      flat.factors.push_back(factor);
  }
}

}  // namespace

bool is_sum(const Expr& expr) { return expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum; }

FlatSum flat_sum(const Algebra& algebra, const Expr& expr, const Scope& around) {
  FlatSum flat{around};
  flatten(algebra, expr, flat);
  return flat;
}

}  // namespace moxie
