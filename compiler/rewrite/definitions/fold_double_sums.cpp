#include <algorithm>

#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/index_pairs.h"
#include "compiler/rewrite/products/order_contractions.h"

namespace moxie {
namespace {

/// Iterations that share the weights of both halves: a load and an addition are little beside half of the kernel then.
constexpr double kSharing = 8;

/// sum[r](sum[t](weight(r,t) * kernel(r,t))), both over 0..extent; the kernel is the part that changes in some loop
/// around.
struct DoubleSum {
  Symbol r, t;
  Affine extent;
  Product weight, kernel;
};

std::optional<DoubleSum> match(const Algebra& algebra, const Expr& expr, const Scope& scope) {
  if (expr->kind != NodeKind::Reduce || expr->reduce != ReduceKind::Sum) return std::nullopt;
  const OpenedReduce outer = open(expr);
  const auto extent = outer.range.as_extent();
  if (!extent) return std::nullopt;
  Product all = algebra.product_of(outer.body);
  const auto inner = std::ranges::find_if(all.factors, [&](const Factor& factor) {
    return factor.power == 1 && factor.base->kind == NodeKind::Reduce && factor.base->reduce == ReduceKind::Sum &&
           factor.base->range == outer.range;
  });
  if (inner == all.factors.end()) return std::nullopt;
  const OpenedReduce opened = open(inner->base);
  all.factors.erase(inner);
  const Product body = algebra.product_of(opened.body);
  all.coefficient *= body.coefficient;
  all.factors.insert(all.factors.end(), body.factors.begin(), body.factors.end());

  DoubleSum sum{outer.index, opened.index, *extent, {all.coefficient, {}}, {1, all.factors}};
  for (const auto& [symbol, range] : scope.open) {
    if (assumed_extent(range) < kSharing) continue;
    DoubleSum split = {sum.r, sum.t, sum.extent, {all.coefficient, {}}, {}};
    for (const Factor& factor : all.factors)
      (factor.base->depends_on(symbol) ? split.kernel : split.weight).factors.push_back(factor);
    if (!split.kernel.factors.empty() && split.weight.factors.size() > sum.weight.factors.size()) sum = split;
  }
  return sum;
}

/// The kernel sees r + t only: one sum over j = r + t, whose weights gather the pairs.
std::optional<Expr> fold_to_midpoints(const Algebra& algebra, const DoubleSum& sum) {
  const Symbol j = Symbol::fresh();
  const auto kernel = in_sum_of_indices(algebra, algebra.make_product(sum.kernel), sum.r, sum.t, j);
  if (!kernel) return std::nullopt;
  const Expr weight =
      algebra.normalise(substitute(algebra.make_product(sum.weight), {{sum.t, Affine(j) - Affine(sum.r)}}));
  const Range pairs = pairs_on_diagonal(j, sum.extent);
  const Expr folded = algebra.make_reduction_sum(sum.r, pairs, weight);
  return algebra.make_reduction_sum(j, Range::extent(sum.extent * 2 - Affine(1)), algebra.times(*kernel, folded));
}

/// The kernel is symmetric: half the pairs, with the weights of both.
std::optional<Expr> fold_to_triangle(const Algebra& algebra, const DoubleSum& sum) {
  const Expr kernel = algebra.make_product(sum.kernel);
  if (kernel->kind == NodeKind::Constant || !is_symmetric(algebra, kernel, sum.r, sum.t)) return std::nullopt;
  const Expr weight = algebra.make_product(sum.weight);
  const Expr both = algebra.plus(weight, swapped(algebra, weight, sum.r, sum.t));
  const Expr on_diagonal = algebra.normalise(substitute(weight, {{sum.t, Affine(sum.r)}}));
  const Expr diagonal = call("==", {index_value(Affine(sum.r)), index_value(Affine(sum.t))});
  const Expr folded = algebra.times(kernel, call("where", {diagonal, on_diagonal, both}));
  return algebra.make_reduction_sum(sum.r, Range::extent(sum.extent),
                                    algebra.make_reduction_sum(sum.t, Range::half_open(sum.r, sum.extent), folded));
}

}  // namespace

Program fold_double_sums(const Program& program) {
  const Algebra algebra(program);
  return split_bodies(program, [&](Program& known, const Definition& definition) {
    std::optional<bool> is_ordered;  // whether order-contractions makes it cheaper than a triangle would
    const auto fold = [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
      const auto sum = match(algebra, expr, scope);
      if (!sum) return std::nullopt;
      if (auto folded = fold_to_midpoints(algebra, *sum)) return folded;
      auto folded = fold_to_triangle(algebra, *sum);
      if (folded && !is_ordered) is_ordered = has_cheaper_order(known, definition);
      return folded && !*is_ordered ? std::move(folded) : std::nullopt;
    };
    return rewrite_top_down(definition.body, Scope::of(definition), fold);
  });
}

}  // namespace moxie
