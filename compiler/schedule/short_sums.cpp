#include "compiler/schedule/short_sums.h"

#include <algorithm>

#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// Iterations, and nodes of all terms together: distances of points in a space of a few dimensions.
constexpr std::int64_t kMostTerms = 8;
constexpr std::size_t kMostWrittenOut = 200;

std::size_t nodes_of_term(const Expr& expr) {
  std::size_t nodes = 0;
  visit(expr, [&](const Expr&) { ++nodes; });
  return nodes;
}

Expr written_out(const Expr& sum, const OpenedReduce& opened, std::int64_t terms) {
  if (sum->reduce != ReduceKind::Sum || terms > kMostTerms) return sum;
  if (nodes_of_term(opened.body) * static_cast<std::size_t>(terms) > kMostWrittenOut) return sum;
  std::vector<Expr> parts;
  for (std::int64_t k = 0; k < terms; ++k)
    parts.push_back(substitute(opened.body, Replacement{{opened.index, Affine(k)}}));
  return call("+", std::move(parts));
}

/// The expression inside `inside` reductions. Of sums directly inside each other, which are one sum over several
/// indices, only the outermost is looked at.
Expr at_depth(const Expr& expr, int depth, int inside, bool directly = false) {
  if (expr->height == 0) return expr;
  if (expr->kind != NodeKind::Reduce)
    return map_children(expr, [&](const Expr& child) { return at_depth(child, depth, inside); });
  const bool is_innermost = std::ranges::all_of(expr->args, [](const Expr& arg) { return arg->height == 0; });
  const auto at_depth_inside = [&](const Expr& child) {
    return at_depth(child, depth, inside + 1, child->kind == NodeKind::Reduce && child->reduce == expr->reduce);
  };
  const Expr inner = is_innermost ? expr : map_opened(expr, open(expr), at_depth_inside);
  const auto terms = known_extent(expr->range);
  if (directly || inside <= depth || inside == 0 || !terms || *terms < 2) return inner;
  return written_out(inner, open(inner), *terms);
}

}  // namespace

Expr with_short_sums_written_out(const Expr& expr, int depth) { return at_depth(expr, depth, 0); }

}  // namespace moxie
