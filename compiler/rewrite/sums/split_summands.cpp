#include <algorithm>

#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// A store and a load per element cost less from here on.
constexpr double kWorthAPlace = 200;

bool holds_sums(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Reduce; });
  return found;
}

/// The sum gathers part of a triangle of pairs. Such sums come in twos, one for each index of the pair, and what both
/// need of a pair is computed once where the pairs are elements of a definition.
bool is_moved(const Range& range, const Scope& scope) {
  return std::ranges::any_of(scope.open, [&](const auto& entry) { return mentions(range, entry.first); });
}

bool has_long_axis(const Definition& definition) {
  return std::ranges::any_of(definition.axes, [](const AxisDecl& axis) { return is_long(axis.range); });
}

/// What is left of the body once costly summands are definitions of at most `room` elements.
Expr split_body(Program& known, const Definition& definition, double room) {
  const auto split = [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
    const bool splits = expr->kind == NodeKind::Reduce && is_moved(expr->range, scope) && holds_sums(expr->args[0]) &&
                        cost(expr->args[0]) >= kWorthAPlace;
    if (!splits) return std::nullopt;
    const OpenedReduce opened = open(expr);
    auto part =
        extract(known, scope.with(opened.index, opened.range), opened.body, definition.name + ".summand", scope.dtype);
    if (!part || !has_long_axis(part->definition) || assumed_size(part->definition.axes) > room) return std::nullopt;
    const Expr read = add_part(known, std::move(*part), definition);
    return reduce(expr->reduce, opened.index, opened.range, read, opened.position);
  };
  return rewrite_top_down(definition.body, Scope::of(definition), split);
}

}  // namespace

Program split_summands(const Program& program) {
  const double room = largest_tensor(program);
  return split_bodies(
      program, [&](Program& known, const Definition& definition) { return split_body(known, definition, room); });
}

}  // namespace moxie
