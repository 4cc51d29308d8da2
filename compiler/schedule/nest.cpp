#include "compiler/schedule/nest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/expression/reductions.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/schedule/quotients_of_loops.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// Axes that share a name are told apart by their positions.
std::string loop_name(const Definition& definition, std::uint32_t axis) {
  const std::string& name = definition.axes[axis].name;
  const auto same = std::ranges::count(definition.axes, name, &AxisDecl::name);
  return name.empty() || same > 1 ? fmt::format("axis{}", axis) : name;
}

[[noreturn]] void refuse(const ScheduleStep& step, const Nest& nest, const std::string& reason) {
  throw CompileError(
      fmt::format("schedule step `{}` of kernel {}: {}", print(step), nest.roots.front().definition.name, reason));
}

const Range& range_of(const NestRoot& root, const NestLoop& loop) { return root.definition.axes[loop.axis].range; }

/// Calls change(root, loop) for each loop of that name.
template <class Change>
void for_loops_named(const ScheduleStep& step, const std::string& name, Nest& nest, const Change& change) {
  std::set<std::string> known;
  bool found = false;
  for (NestRoot& root : nest.roots) {
    for (NestLoop& loop : root.loops) {
      known.insert(loop.name);
      if (loop.name != name) continue;
      change(root, loop);
      found = true;
    }
  }
  if (!found) refuse(step, nest, fmt::format("there is no loop `{}`; loops: {}", name, fmt::join(known, ", ")));
}

Nest reorder(const ScheduleStep& step, Nest nest) {
  for (const std::string& name : step.loops) for_loops_named(step, name, nest, [](NestRoot&, NestLoop&) {});
  for (NestRoot& root : nest.roots) {
    const auto position = [&](const NestLoop& loop) {
      return std::ranges::find(step.loops, loop.name) - step.loops.begin();
    };
    std::ranges::stable_sort(root.loops, {}, position);
    for (std::size_t k = 0; k < root.loops.size(); ++k) {
      if (position(root.loops[k]) == std::ssize(step.loops))
        refuse(step, nest, fmt::format("does not name loop `{}`", root.loops[k].name));
      for (std::size_t inner = k + 1; inner < root.loops.size(); ++inner) {
        if (mentions(range_of(root, root.loops[k]), Symbol::axis(root.loops[inner].axis)))
          refuse(step, nest,
                 fmt::format("`{}` bounds the range of `{}` and must stand outside it", root.loops[inner].name,
                             root.loops[k].name));
      }
    }
  }
  return nest;
}

Nest unroll(const ScheduleStep& step, Nest nest) {
  for_loops_named(step, step.loops.front(), nest, [&](const NestRoot& root, NestLoop& loop) {
    if (loop.lanes) refuse(step, nest, fmt::format("`{}` runs over lanes", loop.name));
    if (!iterations_between_dims(range_of(root, loop)))
      refuse(step, nest, fmt::format("the range of `{}` depends on other loops", loop.name));
    loop.unroll = step.factor;
  });
  return nest;
}

/// "sum.sum": 2; 0 where the name is an axis.
int reduction_depth(std::string_view name) {
  int depth = 0;
  for (; name.starts_with("sum"); ++depth) {
    name.remove_prefix(3);
    if (name.empty()) return depth + 1;
    if (!name.starts_with(".")) return 0;
    name.remove_prefix(1);
  }
  return 0;
}

Nest lanes(const ScheduleStep& step, Nest nest) {
  const std::string& name = step.loops.front();
  if (const int depth = reduction_depth(name)) {
    nest.lanes_depth = depth;
    return nest;
  }
  for_loops_named(step, name, nest, [&](const NestRoot& root, NestLoop& loop) {
    if (loop.unroll > 1) refuse(step, nest, fmt::format("`{}` is unrolled", name));
    for (const NestLoop& other : root.loops) {
      if (other.lanes) refuse(step, nest, fmt::format("`{}` runs over lanes already", other.name));
      if (mentions(range_of(root, other), Symbol::axis(loop.axis)))
        refuse(step, nest, fmt::format("`{}` bounds the range of the loop `{}`", name, other.name));
    }
    loop.lanes = true;
  });
  return nest;
}

Nest parallel(const ScheduleStep& step, Nest nest) {
  for_loops_named(step, step.loops.front(), nest, [&](const NestRoot& root, NestLoop& loop) {
    if (!iterations_between_dims(range_of(root, loop)))
      refuse(step, nest, fmt::format("the range of `{}` depends on other loops", loop.name));
    for (const NestLoop& other : root.loops) {
      if (other.parallel) refuse(step, nest, fmt::format("`{}` is split over threads already", other.name));
    }
    loop.parallel = true;
  });
  return nest;
}

/// The reduction that `depth` reductions of one kind enclose, itself included, the outermost of which is the whole
/// body. Throws CompileError where there is none.
Expr reduction_at(const ScheduleStep& step, const Nest& nest, const NestRoot& root, int depth) {
  Expr expr = root.definition.body;
  for (int k = 1;; ++k) {
    if (expr->kind != NodeKind::Reduce)
      refuse(step, nest,
             k == 1 ? "the definition is no reduction, but an expression of other values"
                    : fmt::format("{} reductions stand directly inside each other", k - 1));
    if (extremum_of(expr->reduce)) refuse(step, nest, "positions of extrema have no partial results");
    if (k == depth) return expr;
    const Expr inner = expr->args[0];
    if (inner->kind == NodeKind::Reduce && inner->reduce != expr->reduce)
      refuse(step, nest, "the reductions around it are of another kind");
    expr = inner;
  }
}

Nest rfactor(const ScheduleStep& step, Nest nest) {
  const int depth = reduction_depth(step.loops.front());
  if (depth == 0) refuse(step, nest, fmt::format("`{}` is no reduction; reductions: sum, sum.sum", step.loops.front()));
  if (nest.chunks_depth > 0) refuse(step, nest, "a reduction is split into chunks already");
  if (std::ranges::any_of(nest.roots,
                          [](const NestRoot& root) { return !is_stored_as_computed(root.definition.dtype); }))
    refuse(step, nest, "integers are rounded once, when all is reduced");
  const Range range = reduction_at(step, nest, nest.roots.front(), depth)->range;
  if (!iterations_between_dims(range)) refuse(step, nest, "the range of the reduction depends on other loops");
  for (const NestRoot& root : nest.roots) {
    if (reduction_at(step, nest, root, depth)->range != range)
      refuse(step, nest, "the definitions of the kernel reduce over different ranges");
  }
  nest.chunks_depth = depth;
  nest.chunks = step.factor;
  return nest;
}

/// The loops over `axes`, of which the one at `outer` was split: an inner loop stands directly inside it.
std::vector<NestLoop> with_inner_loop(const std::vector<NestLoop>& loops, std::uint32_t outer,
                                      const std::vector<AxisDecl>& axes) {
  std::vector<NestLoop> result;
  for (NestLoop loop : loops) {
    if (loop.axis > outer) ++loop.axis;
    if (loop.axis == outer) loop.name = axes[outer].name;
    result.push_back(loop);
    if (loop.axis == outer) result.push_back({outer + 1, axes[outer + 1].name});
  }
  return result;
}

/// The root with two axes in the place of one, of which the inner one has `factor` elements.
NestRoot with_split_axis(const NestRoot& root, const NestLoop& split, std::int64_t factor) {
  const std::uint32_t outer = split.axis;
  NestRoot result = root;
  Replacement moved;
  for (std::uint32_t axis = 0; axis < root.definition.axes.size(); ++axis)
    moved.emplace_back(Symbol::axis(axis), Symbol::axis(axis > outer ? axis + 1 : axis));
  moved[outer].second = Affine(Symbol::axis(outer)) * factor + Affine(Symbol::axis(outer + 1));
  const auto lookup = [&](Symbol symbol) {
    return symbol.kind() == Symbol::Kind::Axis ? &moved.at(symbol.number()).second : nullptr;
  };
  std::vector<AxisDecl>& axes = result.definition.axes;
  for (AxisDecl& axis : axes) axis.range = axis.range.substitute(lookup);
  const Affine parts(root.definition.axes[outer].extent.constant() / factor);
  axes[outer] = {split.name + ".o", parts, Range::extent(parts)};
  axes.insert(axes.begin() + outer + 1, {split.name + ".i", Affine(factor), Range::extent(factor)});
  const Scope scope = Scope::of(result.definition);
  const auto in_new_axes = [&](const Expr& expr) { return with_known_quotients(substitute(expr, moved), scope); };
  result.definition.body = in_new_axes(root.definition.body);
  if (root.prepared) result.prepared->guarded = in_new_axes(root.prepared->guarded);
  result.element.clear();
  for (std::uint32_t axis = 0; axis < root.definition.axes.size() && root.element.empty(); ++axis)
    result.element.push_back(moved[axis].second);
  for (const Affine& element : root.element) result.element.push_back(element.substitute(lookup));
  result.loops = with_inner_loop(root.loops, outer, axes);
  return result;
}

Nest split(const ScheduleStep& step, Nest nest) {
  if (nest.roots.size() > 1) refuse(step, nest, "the kernel computes several definitions");
  const NestRoot root = nest.roots.front();
  for_loops_named(step, step.loops.front(), nest, [&](const NestRoot&, const NestLoop& loop) {
    if (loop.unroll > 1 || loop.lanes || loop.parallel)
      refuse(step, nest, fmt::format("other steps have changed `{}`", loop.name));
    const AxisDecl& axis = root.definition.axes[loop.axis];
    if (!axis.extent.is_constant() || axis.range != Range::extent(axis.extent))
      refuse(step, nest, fmt::format("`{}` has no fixed number of iterations", loop.name));
    if (axis.extent.constant() % step.factor != 0)
      refuse(
          step, nest,
          fmt::format("{} does not divide the {} iterations of `{}`", step.factor, axis.extent.constant(), loop.name));
  });
  const auto loop = std::ranges::find(root.loops, step.loops.front(), &NestLoop::name);
  nest.roots.front() = with_split_axis(root, *loop, step.factor);
  nest.in_place.clear();
  return nest;
}

}  // namespace

std::optional<Affine> iterations_between_dims(const Range& range) {
  if (range.lows.size() != 1 || range.highs.size() != 1) return std::nullopt;
  const auto is_fixed = [](const Bound& bound) {
    return bound.divisor == 1 &&
           std::ranges::all_of(bound.value.terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
  };
  if (!is_fixed(range.lows[0]) || !is_fixed(range.highs[0])) return std::nullopt;
  return range.highs[0].value - range.lows[0].value + Affine(1);
}

Nest plain_nest(std::span<const Definition> definitions) {
  Nest nest;
  for (const Definition& definition : definitions) {
    NestRoot root{definition, {}};
    for (std::uint32_t axis = definition.scan ? 1 : 0; axis < definition.axes.size(); ++axis)
      root.loops.push_back({axis, loop_name(definition, axis)});
    nest.roots.push_back(std::move(root));
  }
  return nest;
}

Nest apply(const ScheduleStep& step, Nest nest) {
  static constexpr Nest (*kSteps[])(const ScheduleStep&, Nest) = {reorder, unroll, lanes, parallel, rfactor, split};
  return kSteps[static_cast<std::size_t>(step.kind)](step, std::move(nest));
}

Nest apply(const Schedule& schedule, Nest nest) {
  for (const ScheduleStep& step : schedule.steps) nest = apply(step, std::move(nest));
  return nest;
}

}  // namespace moxie
