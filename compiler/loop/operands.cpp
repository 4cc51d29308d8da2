#include "compiler/loop/operands.h"

#include "compiler/loop/overload.h"

namespace moxie {

std::vector<ValueId> operands(const Operation& operation) {
  return std::visit(
      Overload{[](const op::Load& o) { return o.guard ? std::vector<ValueId>{*o.guard} : std::vector<ValueId>{}; },
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

}  // namespace moxie
