#include <algorithm>

#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/index_pairs.h"

namespace moxie {
namespace {

struct AxisPair {
  std::uint32_t a, b;
};

std::optional<AxisPair> find_pair(const Definition& definition, const std::function<bool(Symbol, Symbol)>& holds) {
  for (std::uint32_t a = definition.scan ? 1 : 0; a < definition.axes.size(); ++a) {
    for (std::uint32_t b = a + 1; b < definition.axes.size(); ++b) {
      const bool same_range = definition.axes[a].range == definition.axes[b].range &&
                              definition.axes[a].range.as_extent() == definition.axes[a].extent;
      if (same_range && holds(Symbol::axis(a), Symbol::axis(b))) return AxisPair{a, b};
    }
  }
  return std::nullopt;
}

std::vector<Affine> all_axes(const Definition& definition) {
  std::vector<Affine> subscripts;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) subscripts.emplace_back(Symbol::axis(k));
  return subscripts;
}

/// Whether the definition is a large sum of products whose factors see at most one of the two axes: a library computes
/// all of such a matrix product sooner than a kernel computes half of it (split_products).
bool is_large_product(const Algebra& algebra, const Definition& definition, Symbol a, Symbol b) {
  constexpr double kMinExtent = 32;  // as operands that are made for a batch must be used
  Scope scope = Scope::of(definition);
  Expr body = definition.body;
  while (body->kind == NodeKind::Reduce && body->reduce == ReduceKind::Sum) {
    const OpenedReduce opened = open(body);
    scope = scope.with(opened.index, opened.range);
    body = opened.body;
  }
  double iterations = 1;
  for (const auto& [symbol, range] : scope.open) {
    if (!range.as_extent()) return false;
    iterations *= assumed_extent(range);
  }
  if (iterations < kSmallestProduct || assumed_extent(*scope.find(a)) < kMinExtent) return false;
  return std::ranges::none_of(algebra.product_of(body).factors, [&](const Factor& factor) {
    return factor.base->depends_on(a) && factor.base->depends_on(b);
  });
}

/// Elements (a,b) and (b,a) are equal: keeps b >= a, and reads the other half from it.
std::optional<Definition> keep_triangle(const Algebra& algebra, Definition& definition, const std::string& name) {
  const auto pair = find_pair(definition, [&](Symbol a, Symbol b) {
    return is_symmetric(algebra, definition.body, a, b) && !is_large_product(algebra, definition, a, b);
  });
  if (!pair) return std::nullopt;
  const Symbol a = Symbol::axis(pair->a);
  const Symbol b = Symbol::axis(pair->b);
  Definition triangle = definition;
  triangle.name = name;
  triangle.output = false;
  triangle.role = OutputRole::Value;
  triangle.axes[pair->b].range = Range::half_open(a, definition.axes[pair->b].extent);
  std::vector<Affine> upper = all_axes(definition);
  std::vector<Affine> lower = upper;
  std::swap(lower[pair->a], lower[pair->b]);
  const Expr in_upper = call(">=", {index_value(Affine(b)), index_value(Affine(a))});
  definition.body = call("where", {in_upper, tensor_access(name, upper), tensor_access(name, lower)});
  return triangle;
}

/// The tensor sees a + b only: one axis takes the place of two.
std::optional<Definition> keep_diagonals(const Algebra& algebra, const Program& program, Definition& definition,
                                         const std::string& name) {
  const Symbol sum = Symbol::fresh();
  std::optional<Expr> body;
  const auto pair = find_pair(definition, [&](Symbol a, Symbol b) {
    return (body = in_sum_of_indices(algebra, definition.body, a, b, sum)).has_value();
  });
  if (!pair) return std::nullopt;
  Definition narrow = definition;
  narrow.name = name;
  narrow.output = false;
  narrow.role = OutputRole::Value;
  AxisDecl& merged = narrow.axes[pair->a];
  merged.extent = clamped_extent(merged.extent * 2 - Affine(1));
  merged.range = Range::extent(merged.extent);
  merged.name = axis_name(program, definition.axes, merged.extent);
  narrow.axes.erase(narrow.axes.begin() + pair->b);
  std::vector<Affine> subscripts = all_axes(definition);
  subscripts[pair->a] += subscripts[pair->b];
  subscripts.erase(subscripts.begin() + pair->b);
  Replacement renumbered = {{sum, Symbol::axis(pair->a)}};
  for (std::uint32_t k = pair->b + 1; k < definition.axes.size(); ++k)
    renumbered.emplace_back(Symbol::axis(k), Symbol::axis(k - 1));
  narrow.body = substitute(*body, renumbered);
  definition.body = tensor_access(name, subscripts);
  return narrow;
}

}  // namespace

Program narrow_definitions(const Program& program) {
  Program result = program;
  const Algebra algebra(program);
  result.definitions.clear();
  for (Definition definition : program.definitions) {
    const bool is_long_sum =
        definition.body->kind == NodeKind::Reduce && is_over_samples(definition.body, Scope::of(definition));
    std::optional<Definition> narrow;
    if (is_long_sum) {
      const std::string name = unused_name(program, definition.name + ".half");
      narrow = keep_diagonals(algebra, program, definition, unused_name(program, definition.name + ".diagonals"));
      if (!narrow) narrow = keep_triangle(algebra, definition, name);
    }
    if (narrow) result.definitions.push_back(std::move(*narrow));
    result.definitions.push_back(std::move(definition));
  }
  return result;
}

}  // namespace moxie
