#include "compiler/diff/prefix_recurrence.h"

#include <algorithm>

#include "compiler/analysis/verify_definition.h"
#include "compiler/diff/open_definition.h"
#include "compiler/diff/program_builder.h"
#include "compiler/diff/safe_reads.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/moving_end.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/index_domain.h"

namespace moxie {
namespace {

/// A reduction over fewer positions is taken as it stands: a step of a scan costs about as much as that many elements.
constexpr std::int64_t kFewSteps = 16;

bool has_many_steps(const Affine& extent, const Replacement& known) {
  const Affine steps = extent.substitute([&](Symbol symbol) -> const Affine* {
    const auto dim = std::ranges::find(known, symbol, &std::pair<Symbol, Affine>::first);
    return dim == known.end() ? nullptr : &dim->second;
  });
  return !steps.is_constant() || steps.constant() > kFewSteps;
}

bool spans_its_extent(const AxisDecl& axis) { return axis.range.as_extent() == axis.extent; }

Affine with(const Affine& affine, Symbol symbol, const Affine& value) {
  return affine.substitute([&](Symbol s) { return s == symbol ? &value : nullptr; });
}

/// Whether the reduction at the first index of axis 0 has one element at most.
bool starts_empty(const Definition& definition, const Replacement& known, Range range, const MovingEnd& end,
                  const Affine& first) {
  const Symbol axis = Symbol::axis(0);
  for (auto* bounds : {&range.lows, &range.highs}) {
    for (Bound& bound : *bounds) bound.value = with(bound.value, axis, first);
  }
  const Affine before = with(end.value, axis, first) - Affine(end.is_high ? 1 : -1);
  (end.is_high ? range.highs : range.lows).push_back({1, before});
  IndexDomain domain(known);
  for (std::uint32_t k = 1; k < definition.axes.size(); ++k)
    domain.add_range(Symbol::axis(k), definition.axes[k].range);
  domain.add_range(Symbol::fresh(), range);
  return domain.is_empty();
}

/// The comparisons with the fixed ends of the range that an index inside it satisfies, except those that always hold.
std::vector<Expr> tests_of(const IndexDomain& domain, const Range& range, const Affine& index, bool lows, bool highs) {
  std::vector<Expr> tests;
  const auto test = [&](const Bound& bound, bool is_high) {
    const Affine scaled = index * bound.divisor;
    const Affine distance = is_high ? bound.value - scaled : scaled - bound.value;
    if (bound.value.mentions(Symbol::axis(0)) || domain.prove_nonnegative(distance) == Proof::Holds) return;
    tests.push_back(call(is_high ? "<=" : ">=", {index_value(scaled), index_value(bound.value)}));
  };
  for (const Bound& low : lows ? range.lows : std::vector<Bound>()) test(low, false);
  for (const Bound& high : highs ? range.highs : std::vector<Bound>()) test(high, true);
  return tests;
}

Expr all_hold(std::vector<Expr> tests) { return tests.size() == 1 ? tests.front() : call("and", std::move(tests)); }

IndexDomain domain_of_axes(const Definition& definition, const Replacement& known) {
  IndexDomain domain(known);
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
    domain.add_range(Symbol::axis(k), definition.axes[k].range);
  return domain;
}

/// The body at the end that moves, where the other ends admit it.
Expr newest_element(const Definition& definition, const Replacement& known, const OpenedReduce& opened,
                    const MovingEnd& end) {
  const Expr value = substitute(opened.body, {{opened.index, end.value}});
  std::vector<Expr> tests = tests_of(domain_of_axes(definition, known), opened.range, end.value, true, true);
  if (tests.empty()) return value;
  return call("where", {all_hold(std::move(tests)), value, constant(neutral_value(definition.body->reduce))});
}

/// Whether the range one index before has elements, for indices after the first one; nothing where it always has.
Expr follows_elements(const Definition& definition, const Replacement& known, const Range& range, const MovingEnd& end,
                      bool is_backwards) {
  IndexDomain domain = domain_of_axes(definition, known);
  const Affine axis(Symbol::axis(0));
  domain.add_nonnegative(is_backwards ? definition.axes[0].extent - Affine(2) - axis : axis - Affine(1));
  std::vector<Expr> tests =
      tests_of(domain, range, end.value - Affine(end.is_high ? 1 : -1), end.is_high, !end.is_high);
  return tests.empty() ? Expr() : all_hold(std::move(tests));
}

class PrefixLifting {
 public:
  PrefixLifting(const Program& program, std::span<const ReduceKind> kinds, const ActiveTensors* active)
      : builder_(without_definitions(program)), definitions_(program.definitions), kinds_(kinds), active_(active) {
    for (const Definition& definition : definitions_) builder_.reserve(definition.name);
  }

  Program run() {
    for (const Definition& definition : definitions_) {
      if (definition.scan || definition.body->kind == NodeKind::LinearAlgebra ||
          prefix_recurrence(builder_.program(), definition))
        builder_.add_definition(definition);
      else
        lift(definition);
    }
    return builder_.take();
  }

 private:
  static Program without_definitions(Program program) {
    program.definitions.clear();
    return program;
  }

  void lift(Definition definition) {
    source_ = &definition;
    const OpenDefinition open = open_definition(definition);
    names_ = names_of(definition, open);
    const Expr body = rewritten(open.body, open.domain, computed_dtype(definition.dtype));
    if (body != open.body) definition.body = substitute(body, closing_of(open));
    builder_.add_definition(std::move(definition));
  }

  Expr rewritten(const Expr& expr, const IterationDomain& domain, DType dtype) {
    if (expr->height == 0) return expr;
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(expr);
      const IterationDomain inside = extended(domain, opened.index, opened.range);
      const Expr inner = map_opened(expr, opened, [&](const Expr& child) {
        // Directly nested reductions of one kind are one over a list of indices, of which no row is empty.
        const bool is_listed = child->kind == NodeKind::Reduce && child->reduce == expr->reduce;
        return is_listed ? child : rewritten(child, inside, dtype);
      });
      return lifted(inner, domain, dtype).value_or(inner);
    }
    for (const DType other : {DType::f32, DType::f64}) {
      if (is_call(expr, to_string(other))) dtype = other;
    }
    return map_children(expr, [&](const Expr& child) { return rewritten(child, domain, dtype); });
  }

  std::optional<Expr> lifted(const Expr& reduction, const IterationDomain& domain, DType dtype) {
    if (std::ranges::find(kinds_, reduction->reduce) == kinds_.end() || !is_wanted(reduction)) return std::nullopt;
    for (const Symbol leading : domain.variables) {
      const OpenedReduce opened = open(reduction);
      if (!moving_end(opened.range, leading, 1) || opened.body->depends_on(leading)) continue;
      if (const auto read = lifted_along(leading, reduction, domain, dtype)) return read;
    }
    return std::nullopt;
  }

  std::optional<Expr> lifted_along(Symbol leading, const Expr& reduction, const IterationDomain& domain, DType dtype) {
    std::vector<Symbol> variables = {leading};
    std::ranges::copy_if(domain.variables, std::back_inserter(variables),
                         [&](Symbol v) { return v != leading && reduction->depends_on(v); });
    const auto boxes = boxes_of(domain, variables);
    if (!boxes) return std::nullopt;
    const std::vector<OpenAxis> axes = as_axes(builder_, variables, *boxes, names_);
    ProgramBuilder grown = builder_;
    const Expr read = grown.add_let({source_->name + ".prefix", dtype, source_->line}, axes, reduction);
    const Definition& added = grown.program().definitions.back();
    if (!prefix_recurrence(grown.program(), added)) return std::nullopt;
    const std::string name = added.name;
    grown.set_body(name, with_safe_reads(grown.program(), added, read_under_conditions(grown.program())));
    builder_ = std::move(grown);
    return read;
  }

  bool is_wanted(const Expr& reduction) const {
    if (!active_) return true;
    bool found = false;
    visit(reduction, [&](const Expr& e) { found |= e->kind == NodeKind::Access && active_->contains(e->tensor); });
    return found;
  }

  ProgramBuilder builder_;
  const std::vector<Definition> definitions_;
  const std::span<const ReduceKind> kinds_;
  const ActiveTensors* active_;
  const Definition* source_ = nullptr;
  std::vector<std::pair<Symbol, std::string>> names_;
};

Expr conditioned(const Expr& condition, const Expr& holds, const Expr& fails) {
  return call("where", {condition, holds, fails});
}

/// Among ties, and among NaN, the element with the smallest index is the extremum.
Expr extremum_step(const Expr& before, const PrefixRecurrence& recurrence, ReduceKind kind) {
  const Expr& element = recurrence.element;
  const auto wins = [&](const Expr& first, const Expr& second) {
    const Expr reaches = call(kind == ReduceKind::Max ? ">=" : "<=", {first, second});
    return call("or", {reaches, call("!=", {first, first})});
  };
  const Expr step = recurrence.adds_in_front ? conditioned(wins(element, before), element, before)
                                             : conditioned(wins(before, element), before, element);
  return recurrence.follows ? conditioned(recurrence.follows, step, element) : step;
}

Expr combined(const Definition& definition, const PrefixRecurrence& recurrence, const Expr& before) {
  const Expr& element = recurrence.element;
  const ReduceKind kind = definition.body->reduce;
  if (kind == ReduceKind::Max || kind == ReduceKind::Min) return extremum_step(before, recurrence, kind);
  if (kind == ReduceKind::Product) return before * element;
  // The value is held above -inf, so that the derivatives are 0, not NaN, where all elements are -inf.
  const Expr value = call("max", {tensor_access(definition.name, own_axes(definition.axes.size())),
                                  -largest_number(computed_dtype(definition.dtype))});
  const auto with_part = [&](const Expr& of, const Expr& part) {
    return call("with_slope", {of, part, call("exp", {part - value})});
  };
  return with_part(with_part(0, before), element);
}

}  // namespace

std::optional<PrefixRecurrence> prefix_recurrence(const Program& program, const Definition& definition) {
  const Replacement known = known_dims(program);
  const Expr& body = definition.body;
  const bool is_reduction = body->kind == NodeKind::Reduce && !extremum_of(body->reduce);
  if (definition.scan || !is_reduction || definition.axes.empty()) return std::nullopt;
  if (!std::ranges::all_of(definition.axes, spans_its_extent) || !has_many_steps(definition.axes[0].extent, known))
    return std::nullopt;
  const Symbol axis = Symbol::axis(0);
  const OpenedReduce opened = open(body);
  const auto end = moving_end(opened.range, axis, 1);
  if (!end || opened.body->depends_on(axis)) return std::nullopt;
  const bool is_backwards = end->is_high != (end->step > 0);
  const Affine first = is_backwards ? definition.axes[0].extent - Affine(1) : Affine(0);
  if (!starts_empty(definition, known, opened.range, *end, first)) return std::nullopt;
  PrefixRecurrence result{is_backwards,
                          !end->is_high,
                          call("==", {index_value(axis), index_value(first)}),
                          own_axes(definition.axes.size()),
                          newest_element(definition, known, opened, *end),
                          follows_elements(definition, known, opened.range, *end, is_backwards)};
  result.previous[0] += Affine(is_backwards ? 1 : -1);
  return result;
}

Program lift_prefixes(const Program& program, std::span<const ReduceKind> kinds, const ActiveTensors* active) {
  return PrefixLifting(program, kinds, active).run();
}

Definition differentiable_step(const Definition& definition, const PrefixRecurrence& recurrence) {
  Definition step = definition;
  const Expr before = tensor_access(definition.name, recurrence.previous);
  step.body = conditioned(recurrence.is_first, recurrence.element, combined(definition, recurrence, before));
  step.scan = Scan{0, recurrence.backwards};
  return step;
}

}  // namespace moxie
