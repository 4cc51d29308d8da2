#include "compiler/diff/factor_reductions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <ranges>
#include <vector>

#include "compiler/diff/adjoint_bounds.h"
#include "compiler/diff/assumed_extent.h"
#include "compiler/diff/guards.h"
#include "compiler/diff/local_definitions.h"
#include "compiler/diff/open_definition.h"
#include "compiler/expression/contraction_path.h"
#include "compiler/expression/functions.h"
#include "compiler/program/scans.h"

namespace moxie {
namespace {

constexpr std::array kKinds = {ReduceKind::Max, ReduceKind::Min, ReduceKind::LogSumExp};
/// Fewer indices than a set has bits.
constexpr std::size_t kMaxIndices = 63;

bool is_factored(const Expr& expr) {
  return expr->kind == NodeKind::Reduce && std::ranges::find(kKinds, expr->reduce) != kKinds.end() && !expr->gathers;
}

/// Nested reductions of one kind, and the terms of the sum that the innermost is of.
struct FlatReduction {
  ReduceKind kind;
  std::vector<SumLoop> loops = {};  // outermost first
  std::vector<Expr> terms = {};
};

void flatten(const Expr& expr, FlatReduction& flat) {
  if (expr->kind == NodeKind::Reduce && expr->reduce == flat.kind) {
    const OpenedReduce opened = open(expr);
    flat.loops.push_back({opened.index, opened.range});
    flatten(opened.body, flat);
  } else if (is_call(expr, "+")) {
    for (const Expr& arg : expr->args) flatten(arg, flat);
  } else {
    flat.terms.push_back(expr);
  }
}

/// The elements of the largest input or definition.
double largest_elements(const Program& program) {
  double largest = 0;
  const auto count = [&](const std::vector<Affine>& shape) {
    double elements = 1;
    for (const Affine& extent : shape) elements *= extent_or_assumed(program, extent);
    largest = std::max(largest, elements);
  };
  for (const InputDecl& input : program.inputs) count(input.shape);
  for (const Definition& definition : program.definitions) count(program.shape_of(definition.name));
  return largest;
}

/// One definition, whose reductions are looked at from the outside in.
class ReductionFactoring {
 public:
  ReductionFactoring(ProgramBuilder& builder, const Definition& definition, Ties ties, double room)
      : builder_(builder),
        ties_(ties),
        room_(room),
        open_(open_definition(definition)),
        gates_(builder.program()),
        parts_(builder, definition, open_, "", gates_),
        dtype_(computed_dtype(definition.dtype)) {}

  /// The body, over the axes of the definition.
  Expr run() { return substitute(walk(open_.body, open_.domain), closing_of(open_)); }

 private:
  Expr walk(const Expr& expr, const IterationDomain& domain) {
    if (expr->height == 0) return expr;
    if (is_factored(expr)) {
      if (const auto result = factored(expr, domain)) return *result;
    }
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(expr);
      const IterationDomain inside = extended(domain, opened.index, opened.range);
      return map_opened(expr, opened, [&](const Expr& child) { return walk(child, inside); });
    }
    if (is_call(expr, "where")) {
      const Expr& truth = expr->args[0];
      return call("where", {truth, walk(expr->args[1], narrowed(domain, truth, true)),
                            walk(expr->args[2], narrowed(domain, truth, false))});
    }
    // Parts of another dtype stay as they are written.
    if (is_call(expr, "f32") || is_call(expr, "f64")) return expr;
    return map_children(expr, [&](const Expr& child) { return walk(child, domain); });
  }

  static IterationDomain narrowed(IterationDomain domain, const Expr& truth, bool holds) {
    const IndexCondition condition = conditions_of(truth, holds);
    std::ranges::copy(condition.nonnegative, std::back_inserter(domain.nonnegative));
    std::ranges::copy(condition.zero, std::back_inserter(domain.zero));
    return domain;
  }

  /// A sum of some of the terms, reduced over what only these depend on.
  struct Operand {
    Expr expr;
    IndexSet indices = 0;
  };

  /// Nothing where the order as written is about as cheap.
  std::optional<Expr> factored(const Expr& reduction, const IterationDomain& around) {
    FlatReduction flat{reduction->reduce};
    flatten(reduction, flat);
    if (flat.loops.size() < 2 || flat.terms.size() < 2 || !is_box(flat)) return std::nullopt;
    IterationDomain domain = around;
    for (const SumLoop& loop : flat.loops) domain = extended(domain, loop.index, loop.range);
    if (domain.variables.size() > kMaxIndices) return std::nullopt;
    const std::vector<Operand> operands = operands_in(flat, domain);
    Contraction contraction = contraction_of(operands, flat, domain);
    IndexSet all = contraction.result;
    for (const IndexSet set : contraction.factors) all |= set;
    if (all + 1 != IndexSet{1} << domain.variables.size() || operands.size() < 2) return std::nullopt;
    const double written = elements_over(all, contraction.extents);
    const double alone = lose_own_indices(contraction);
    const auto path = cheapest_path(contraction, room_);
    if (!path) return std::nullopt;
    const double cost = alone + path->cost;
    const bool gains = cost * kMinPathGain <= written && written - cost >= kMinSaved;
    return gains ? follow(*path, contraction, operands, flat, around) : std::nullopt;
  }

  /// Whether no index moves the range of another.
  static bool is_box(const FlatReduction& flat) {
    return std::ranges::none_of(flat.loops, [&](const SumLoop& moved) {
      return std::ranges::any_of(flat.loops, [&](const SumLoop& loop) { return mentions(moved.range, loop.index); });
    });
  }

  static bool mentions(const Range& range, Symbol symbol) {
    const auto is_in = [&](const Bound& bound) { return bound.value.mentions(symbol); };
    return std::ranges::any_of(range.lows, is_in) || std::ranges::any_of(range.highs, is_in);
  }

  /// Terms that depend on no more than another one does are one with it.
  static std::vector<Operand> operands_in(const FlatReduction& flat, const IterationDomain& domain) {
    std::vector<Operand> operands;
    for (const Expr& term : flat.terms) operands.push_back({term, indices_of(term, domain)});
    const auto count = [](const Operand& operand) { return std::popcount(operand.indices); };
    std::ranges::stable_sort(operands, std::ranges::greater{}, count);
    std::vector<Operand> merged;
    for (const Operand& operand : operands) {
      const auto has_all = [&](const Operand& wider) { return (operand.indices & ~wider.indices) == 0; };
      const auto wider = std::ranges::find_if(merged, has_all);
      if (wider == merged.end())
        merged.push_back(operand);
      else
        wider->expr = wider->expr + operand.expr;
    }
    return merged;
  }

  static IndexSet indices_of(const Expr& expr, const IterationDomain& domain) {
    IndexSet set = 0;
    for (std::size_t k = 0; k < domain.variables.size(); ++k) {
      if (expr->depends_on(domain.variables[k])) set |= IndexSet{1} << k;
    }
    return set;
  }

  Contraction contraction_of(const std::vector<Operand>& operands, const FlatReduction& flat,
                             const IterationDomain& domain) const {
    Contraction contraction;
    for (const Operand& operand : operands) contraction.factors.push_back(operand.indices);
    for (const Symbol variable : domain.variables) {
      const bool is_step = parts_.step() == variable;  // fixed while a step is computed
      const auto box = box_of(domain, variable);
      const double extent =
          box ? extent_or_assumed(builder_.program(), box->high - box->low + Affine(1)) : kAssumedExtent;
      contraction.extents.push_back(is_step ? 1 : extent);
    }
    contraction.result = (IndexSet{1} << (domain.variables.size() - flat.loops.size())) - 1;
    return contraction;
  }

  /// A sum of operands, or an operand alone, that loses indices.
  struct Step {
    std::vector<std::size_t> operands;
    IndexSet gone = 0, kept = 0;
    std::size_t result = 0;  // the operand that it gives
  };

  static std::vector<Step> steps_of(const ContractionPath& path, const Contraction& contraction,
                                    const std::vector<Operand>& operands) {
    const std::vector<IndexSet> sets = operands_of(contraction, path);
    std::vector<Step> steps;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const IndexSet own = operands[k].indices & ~sets[k];
      if (own != 0) steps.push_back({{k}, own, sets[k], k});
    }
    for (std::size_t k = 0; k < path.steps.size(); ++k) {
      const auto& [first, second] = path.steps[k];
      const std::size_t result = contraction.factors.size() + k;
      steps.push_back({{first, second}, (sets[first] | sets[second]) & ~sets[result], sets[result], result});
    }
    return steps;
  }

  std::optional<Expr> follow(const ContractionPath& path, const Contraction& contraction, std::vector<Operand> operands,
                             const FlatReduction& flat, const IterationDomain& around) {
    const std::vector<Step> steps = steps_of(path, contraction, operands);
    const auto loops_in = [&](IndexSet set) {
      std::vector<SumLoop> loops;
      for (std::size_t k = 0; k < flat.loops.size(); ++k) {
        if ((set >> (around.variables.size() + k) & 1) != 0) loops.push_back(flat.loops[k]);
      }
      return loops;
    };
    if (ties_ == Ties::Kept && flat.kind != ReduceKind::LogSumExp && !keeps_ties(steps)) return std::nullopt;
    operands.resize(contraction.factors.size() + path.steps.size());
    for (const Step& step : steps) {
      Expr expr = operands[step.operands[0]].expr;
      if (step.operands.size() > 1) expr = expr + operands[step.operands[1]].expr;
      for (const SumLoop& loop : loops_in(step.gone) | std::views::reverse)
        expr = reduce(flat.kind, loop.index, loop.range, expr);
      IterationDomain domain = around;
      for (const SumLoop& loop : loops_in(step.kept)) domain = extended(domain, loop.index, loop.range);
      const bool is_last = &step == &steps.back();
      operands[step.result].expr = is_last || step.gone == 0 ? expr : parts_.stored(expr, domain, dtype_);
    }
    return operands.back().expr;
  }

  /// Whether indices are lost from the last one on: of equal elements of an extremum, the first is that with the
  /// smallest outermost index.
  static bool keeps_ties(const std::vector<Step>& steps) {
    IndexSet left = 0;
    for (const Step& step : steps) left |= step.gone;
    return std::ranges::all_of(steps, [&](const Step& step) {
      left &= ~step.gone;
      return step.gone == 0 || (step.gone & (std::bit_ceil(left + 1) - 1)) == 0;
    });
  }

  const ProgramBuilder& builder_;
  const Ties ties_;
  const double room_;  // elements of an intermediate result
  const OpenDefinition open_;
  Gates gates_;
  LocalDefinitions parts_;
  const DType dtype_;
};

/// The definitions that were added for parts run over ranges where the conditions on their axes are such.
void bound_parts(Program& program, std::size_t first, std::size_t last) {
  for (std::size_t k = first; k < last; ++k) {
    Definition& part = program.definitions[k];
    BoundedAdjoint bounded = with_bounds(program.dims, part.axes, part.body);
    part.axes = std::move(bounded.axes);
    part.body = std::move(bounded.body);
  }
}

}  // namespace

Program factor_reductions(const Program& program, Ties ties) {
  Program kept = program;
  kept.definitions.clear();
  ProgramBuilder builder(std::move(kept));
  for (const Definition& definition : program.definitions) builder.reserve(definition.name);
  const double room = room_beside(largest_elements(program));
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (Definition definition : program.definitions) {
    const std::size_t first = builder.program().definitions.size();
    // Copies for the steps of another scan are of definitions that are factored already.
    if (definition.body->kind != NodeKind::LinearAlgebra && !definition.recomputed)
      definition.body = ReductionFactoring(builder, definition, ties, room).run();
    parts.emplace_back(first, builder.program().definitions.size());
    builder.add_definition(std::move(definition));
  }
  Program result = builder.take();
  for (const auto& [first, last] : parts) bound_parts(result, first, last);
  return leave_scans(result);
}

}  // namespace moxie
