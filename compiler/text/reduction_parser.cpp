// The part of ExprParser that reads reductions which a text defines: `welford[k](1, x[s,k], 0)`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/program/declared_extents.h"
#include "compiler/text/expr_parser.h"

namespace moxie {
namespace {

std::string call_form(const Monoid& monoid, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& component : monoid.components) names.push_back(component.name);
  return fmt::format("write {}[k]({})", name, fmt::join(names, ", "));
}

}  // namespace

std::optional<Operand> ExprParser::defined_reduction(const Token& name) {
  if (!names_.functions() || !tokens_.at_call_after_brackets()) return std::nullopt;
  const TextReductions& reductions = names_.functions()->reductions;
  std::size_t component = 0;
  const Monoid* whole = reductions.find(name.text);
  const Monoid* monoid = whole ? whole : reductions.find_component(name.text, component);
  if (!monoid) return std::nullopt;
  if (!reductions.being_defined.empty())
    tokens_.fail<TypeError>(name,
                            fmt::format("`{}` stands in the definition of `{}`", name.text, reductions.being_defined),
                            "what becomes of two states is written in numbers, without reductions");
  if (whole && !monoid->finish && monoid->components.size() > 1)
    tokens_.fail<TypeError>(name,
                            fmt::format("`{}` has {} results and no finish", name.text, monoid->components.size()),
                            fmt::format("name a component: {}.{}[k](..)", name.text, monoid->components[0].name));
  Operand result = state_reduction(name, *monoid, [&](const State& state) {
    return whole && monoid->finish ? monoid->finished(state) : state[component];
  });
  check_size(name, result);
  return result;
}

Operand ExprParser::state_reduction(const Token& name, const Monoid& monoid,
                                    const std::function<Expr(const State&)>& result_of) {
  const Loops loops = binders(fmt::format("write {0}[k](..) or {0}[k in low..high](..)", name.text));
  for (const Binding& loop : loops.bindings) names_.bind(loop);
  tokens_.expect("(", "the elements of a reduction stand in parentheses");
  Operand result{{}, {}, 0, 0};
  State state;
  do {
    Operand element = disjunction();
    const std::size_t component = std::min(state.size(), monoid.components.size() - 1);
    element = only_where(loops.conditions, std::move(element), monoid.components[component].identity);
    for (auto quotients = loops.quotients.rbegin(); quotients != loops.quotients.rend(); ++quotients)
      element.expr = quotients->bind(element.expr);
    result.depth = std::max(result.depth, element.depth);
    result.size += element.size;
    state.push_back(as_number(name, element.expr));
  } while (tokens_.accept(","));
  tokens_.expect(")");
  if (state.size() != monoid.components.size())
    tokens_.fail<ShapeError>(name,
                             fmt::format("`{}` takes elements of {} component(s), but {} were given", name.text,
                                         monoid.components.size(), state.size()),
                             call_form(monoid, name.text));
  for (std::size_t k = loops.bindings.size(); k-- > 0;) {
    names_.unbind(1);
    state = reduced_state(name, monoid, loops.bindings[k], state);
  }
  result.depth += static_cast<int>(loops.bindings.size()) + 1;
  tokens_.check_depth(result.depth);
  result.expr = result_of(state);
  return result;
}

Expr ExprParser::as_number(const Token& at, const Expr& element) const {
  const bool is_condition = element->kind == NodeKind::Call && element->function->result == ResultType::Truth;
  if (is_condition)
    tokens_.fail<TypeError>(at, fmt::format("an element of `{}` is a condition, but a number is wanted", at.text),
                            "write where(condition, 1, 0)");
  return element;
}

/// Where no definition is read, as in the body of a function that is being defined, any expression of the same indices.
State ExprParser::reduced_state(const Token& name, const Monoid& monoid, const Binding& loop, const State& elements) {
  TextReductions& reductions = names_.functions()->reductions;
  if (!reductions.site) {
    State state;
    for (const Expr& element : elements) state.push_back(reduce(ReduceKind::Sum, loop.symbol, loop.range, element));
    return state;
  }
  check_outside_scan(name, elements);
  MonoidReduction reduction{loop.name, loop.symbol, loop.range, elements, {}};
  for (const Binding& binding : names_.whole_scope()) reduction.outer.push_back(outer_index(binding));
  try {
    return reductions.reduced(monoid, reduction);
  } catch (const ShapeError& error) {
    tokens_.fail<ShapeError>(name, error.what());
  }
}

OuterIndex ExprParser::outer_index(const Binding& binding) const {
  const std::vector<AxisDecl>& axes = names_.functions()->reductions.site->definition.axes;
  const bool is_axis = binding.symbol.kind() == Symbol::Kind::Axis && binding.symbol.number() < axes.size();
  return {binding.name, binding.symbol, binding.range,
          is_axis ? axes[binding.symbol.number()].extent : axis_extent(program_, binding.name, binding.range)};
}

/// The scan that a reduction stands for is done before the scan that reads it begins.
void ExprParser::check_outside_scan(const Token& name, const State& elements) const {
  const DefinitionSite& site = *names_.functions()->reductions.site;
  if (!site.definition.scan) return;
  for (const Expr& element : elements) {
    visit(element, [&](const Expr& e) {
      const Definition* read = e->kind == NodeKind::Access ? site.program.find_definition(e->tensor) : nullptr;
      if (!read || read->scan != site.definition.scan) return;
      tokens_.fail<TypeError>(name,
                              fmt::format("`{}` reduces `{}`, which the scan around it computes", name.text, e->tensor),
                              "inside a scan, reductions that a text defines read what is computed before the scan");
    });
  }
}

}  // namespace moxie
