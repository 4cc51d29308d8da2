#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/program/placeholders.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"

namespace moxie {
namespace {

/// The difference of indices that the condition wants to be other than zero.
std::optional<Affine> nonzero_difference(const Expr& condition) {
  const bool negated = is_call(condition, "not");
  const Expr& comparison = negated ? condition->args[0] : condition;
  if (!is_call(comparison, negated ? "==" : "!=")) return std::nullopt;
  const auto left = affine_of(comparison->args[0]);
  const auto right = affine_of(comparison->args[1]);
  return left && right ? std::optional(*left - *right) : std::nullopt;
}

/// The value of the index at which the difference is zero, if it is an integer that indices around the sum give.
std::optional<Affine> zero_of(const Affine& difference, Symbol index, const Scope& scope) {
  const std::int64_t coefficient = difference.coefficient(index);
  if (coefficient != 1 && coefficient != -1) return std::nullopt;
  const Affine value = (difference - Affine(index) * coefficient) * -coefficient;
  const bool is_known = std::ranges::all_of(value.terms(), [&](const Affine::Term& term) {
    return term.first.is_dim() || scope.find(term.first) != nullptr;
  });
  return is_known ? std::optional(value) : std::nullopt;
}

class HoleSplitter {
 public:
  explicit HoleSplitter(const Program& program) : algebra_(program) {}

  Expr apply(const Expr& expr, const Scope& scope) const {
    if (!is_sum(expr) || !is_long(expr->range)) return expr;
    const OpenedReduce opened = open(expr);
    if (!is_call(opened.body, "where") || !opened.body->args[2]->is_constant(0)) return expr;
    const Expr& product = opened.body->args[1];
    const auto difference = nonzero_difference(opened.body->args[0]);
    const auto hole = difference ? zero_of(*difference, opened.index, scope) : std::nullopt;
    if (!hole || !is_contraction(product, *difference, scope)) return expr;
    const IndexDomain around = domain_of(scope);
    const auto part = [&](const Affine& bound) {
      const Range range = with_bound(opened.range, opened.index, bound);
      return reduce(ReduceKind::Sum, opened.index, without_idle_bounds(range, opened.index, around), product);
    };
    return part(*hole - Affine(opened.index) - Affine(1)) + part(Affine(opened.index) - *hole - Affine(1));
  }

 private:
  /// Whether the body is a product of elements of tensors whose sums along a long axis share the hole: lanes along that
  /// axis then need no masks. Other sums have lanes along the index or along the hole, and there a mask costs less than
  /// ranges whose ends move.
  bool is_contraction(const Expr& body, const Affine& difference, const Scope& scope) const {
    const Product product = algebra_.product_of(body);
    const bool of_elements =
        product.factors.size() > 1 && std::ranges::all_of(product.factors, [](const Factor& factor) {
          return factor.base->kind == NodeKind::Access && factor.power == 1;
        });
    return of_elements && std::ranges::any_of(scope.open, [&](const auto& entry) {
             const auto& [symbol, range] = entry;
             return body->depends_on(symbol) && !difference.mentions(symbol) && is_long(range);
           });
  }

  Algebra algebra_;
};

}  // namespace

Program split_holes(const Program& program) {
  Program result = program;
  const HoleSplitter splitter(program);
  for (Definition& definition : result.definitions) {
    definition.body = rewrite_bottom_up(definition.body, Scope::of(definition),
                                        [&](const Expr& e, const Scope& scope) { return splitter.apply(e, scope); });
  }
  return result;
}

}  // namespace moxie
