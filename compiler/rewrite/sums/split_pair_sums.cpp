#include "compiler/rewrite/sums/split_pair_sums.h"

#include <algorithm>

#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

using Names = std::set<std::string>;

bool reads_any(const Expr& expr, const Names& tensors) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Access && tensors.contains(e->tensor); });
  return found;
}

/// sum[i](sum[j](summand)) over two long ranges, neither of which the other index moves, for a few elements.
struct PairSum {
  OpenedReduce first, second;
};

std::optional<PairSum> pair_sum(const Definition& definition) {
  const auto is_sum = [](const Expr& e) { return e->kind == NodeKind::Reduce && e->reduce == ReduceKind::Sum; };
  const auto is_short = [](const AxisDecl& axis) { return has_fixed_extent(axis.range) && !is_long(axis.range); };
  if (definition.scan || !std::ranges::all_of(definition.axes, is_short) || !is_sum(definition.body))
    return std::nullopt;
  const OpenedReduce first = open(definition.body);
  if (!is_sum(first.body)) return std::nullopt;
  const OpenedReduce second = open(first.body);
  for (const OpenedReduce* loop : {&first, &second}) {
    if (!is_long(loop->range) || !has_fixed_extent(loop->range)) return std::nullopt;
  }
  return PairSum{first, second};
}

/// Whether the definition sums along rows over `inner`, one for each element of `outer`, and reads one of the tensors.
bool sums_rows(const Definition& definition, const Range& outer, const Range& inner, const Names& tensors) {
  const bool has_axis = std::ranges::any_of(definition.axes, [&](const AxisDecl& axis) { return axis.range == outer; });
  const bool sums = definition.body->kind == NodeKind::Reduce && open(definition.body).range == inner;
  return !definition.scan && has_axis && sums && reads_any(definition.body, tensors);
}

/// The loops of the sum, with the one that goes over the rows of another definition first; nothing where there is none.
std::optional<PairSum> with_rows_of_others(const Program& program, const Names& tensors, const PairSum& sum) {
  for (const PairSum& order : {sum, PairSum{sum.second, sum.first}}) {
    const bool found = std::ranges::any_of(program.definitions, [&](const Definition& other) {
      return sums_rows(other, order.first.range, order.second.range, tensors);
    });
    if (found) return order;
  }
  return std::nullopt;
}

}  // namespace

Program split_pair_sums(const Program& program, const std::set<std::string>& tensors) {
  Program result = program;
  result.definitions.clear();
  for (Definition definition : program.definitions) {
    const auto sum = reads_any(definition.body, tensors) ? pair_sum(definition) : std::nullopt;
    const auto order = sum ? with_rows_of_others(program, tensors, *sum) : std::nullopt;
    if (order) {
      const Expr row = reduce(ReduceKind::Sum, order->second.index, order->second.range, sum->second.body);
      Scope scope = Scope::of(definition);
      scope.open.insert(scope.open.begin(), {order->first.index, order->first.range});
      if (auto part = extract(program, scope, row, definition.name + ".rows", computed_dtype(definition.dtype))) {
        part->definition.line = definition.line;
        definition.body = reduce(ReduceKind::Sum, order->first.index, order->first.range, part->read);
        result.definitions.push_back(std::move(part->definition));
      }
    }
    result.definitions.push_back(std::move(definition));
  }
  return result;
}

}  // namespace moxie
