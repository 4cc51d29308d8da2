#include "compiler/rewrite/patterns/flat_sum.h"

#include <algorithm>

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

/// Whether nothing depends on the index, so that its sum adds up the same value at every iteration.
bool is_idle(const FlatSum& flat, Symbol index) {
  return std::ranges::none_of(flat.factors, [&](const Factor& f) { return f.base->depends_on(index); }) &&
         std::ranges::none_of(flat.scope.open, [&](const auto& entry) { return mentions(entry.second, index); });
}

/// Indices that nothing depends on become a coefficient, as in the normal form: their trip count.
void drop_idle_indices(FlatSum& flat) {
  std::erase_if(flat.summed, [&](Symbol index) {
    const Range& range = *flat.scope.find(index);
    if (!range.has_iterations() || !is_idle(flat, index)) return false;
    flat.coefficient *= static_cast<double>(range.known_trip_count()->constant());
    std::erase_if(flat.scope.open, [&](const auto& entry) { return entry.first == index; });
    return true;
  });
}

}  // namespace

bool is_sum(const Expr& expr) { return expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum; }

Expr rewrite_outer_sums(const Definition& definition,
                        const std::function<std::optional<Expr>(const Expr& sum, const Scope& around)>& f) {
  return rewrite_top_down(definition.body, Scope::of(definition),
                          [&](const Expr& e, const Scope& scope) -> std::optional<Expr> {
                            const bool is_outermost = scope.open.size() == definition.axes.size();
                            return is_outermost && is_sum(e) ? f(e, scope) : std::nullopt;
                          });
}

bool is_product_of_tensors(const Product& product, Symbol index) {
  return product.factors.size() == 2 && std::ranges::all_of(product.factors, [&](const Factor& factor) {
           return factor.power == 1 && factor.base->kind == NodeKind::Access && factor.base->depends_on(index);
         });
}

bool has_idle_indices(const FlatSum& flat) {
  return std::ranges::any_of(flat.summed, [&](Symbol index) { return is_idle(flat, index); });
}

FlatSum flat_sum(const Algebra& algebra, const Expr& expr, const Scope& around) {
  FlatSum flat{around};
  flatten(algebra, expr, flat);
  drop_idle_indices(flat);
  return flat;
}

Expr summed(const std::vector<Symbol>& symbols, Expr expr, const FlatSum& flat) {
  for (auto symbol = symbols.rbegin(); symbol != symbols.rend(); ++symbol)
    expr = reduce(ReduceKind::Sum, *symbol, *flat.scope.find(*symbol), expr);
  return expr;
}

}  // namespace moxie
