#include "compiler/loop/operands.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "compiler/loop/overload.h"

namespace moxie {

namespace {

void add_values(std::vector<ValueId>& ids, std::span<const Affine> affines) {
  for (const Affine& affine : affines) {
    for (const auto& [symbol, coefficient] : affine.terms()) {
      if (symbol.is_value()) ids.push_back(symbol.number());
    }
  }
}

std::vector<ValueId> with_values(const std::optional<ValueId>& guard, std::span<const Affine> affines) {
  std::vector<ValueId> ids;
  if (guard) ids.push_back(*guard);
  add_values(ids, affines);
  return ids;
}

std::span<const Affine> affines_of(const Operation& operation) {
  return std::visit(Overload{[](const op::Load& o) { return std::span<const Affine>(o.subscripts); },
                             [](const op::Subscript& o) { return std::span(&o.value, 1); },
                             [](const auto&) { return std::span<const Affine>(); }},
                    operation);
}

}  // namespace

std::vector<ValueId> operands(const Operation& operation) {
  return std::visit(Overload{[](const op::Load& o) { return with_values(o.guard, o.subscripts); },
                             [](const op::Subscript& o) { return with_values(o.guard, std::span(&o.value, 1)); },
                             [](const op::Number& o) { return with_values({}, std::span(&o.value, 1)); },
                             [](const op::Call& o) { return o.args; },
                             [](const op::Convert& o) { return std::vector<ValueId>{o.value}; },
                             [](const op::CombineLanes& o) { return std::vector<ValueId>{o.value}; },
                             [](const op::PrefixLanes& o) { return std::vector<ValueId>{o.value}; },
                             [](const op::LastLane& o) { return std::vector<ValueId>{o.value}; },
                             [](const auto&) { return std::vector<ValueId>{}; }},
                    operation);
}

std::vector<ValueId> operands(const LoopProgram& program, const Statement& statement) {
  return std::visit(Overload{[&](const stmt::Let& s) { return operands(program.values.at(s.id).operation); },
                             [](const stmt::For&) { return std::vector<ValueId>{}; },
                             [](const stmt::Check& s) { return std::vector<ValueId>{s.bad, s.value}; },
                             [](const auto& s) { return std::vector<ValueId>{s.value}; }},
                    static_cast<const Statement::variant&>(statement));
}

std::optional<Affine> index_in(const Value& value) {
  constexpr double kExact = 1LL << 53;  // up to here, whole numbers are exact in double precision
  if (const auto* number = std::get_if<op::Number>(&value.operation)) return number->value;
  const auto* constant = std::get_if<op::Constant>(&value.operation);
  const bool is_whole = constant && value.type != ValueType::truth && std::abs(constant->value) < kExact &&
                        constant->value == std::trunc(constant->value);
  return is_whole ? std::optional(Affine(static_cast<std::int64_t>(constant->value))) : std::nullopt;
}

bool moves_with(const LoopProgram& program, const Affine& affine, Symbol variable) {
  return std::ranges::any_of(affine.terms(), [&](const Affine::Term& term) {
    if (!term.first.is_value()) return term.first == variable;
    return std::ranges::any_of(affines_of(program.values.at(term.first.number()).operation),
                               [&](const Affine& inner) { return moves_with(program, inner, variable); });
  });
}

bool mentions_varying(const LoopProgram& program, const Affine& affine) {
  return std::ranges::any_of(affine.terms(), [&](const Affine::Term& term) {
    return term.first.is_value() && program.values.at(term.first.number()).varying;
  });
}

}  // namespace moxie
