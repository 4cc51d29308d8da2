#include "compiler/loop/accumulations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/ir/functions.h"
#include "compiler/ir/reductions.h"
#include "compiler/loop/operands.h"

namespace moxie {
namespace {

/// What the statements of a block do with values and vars.
struct Uses {
  Uses(const LoopProgram& program, const Block& body) {
    for (const Statement& statement : body) {
      for (const ValueId id : operands(program, statement)) ++of_value[id];
      if (const auto* let = std::get_if<stmt::Let>(&statement)) {
        if (const auto* read = std::get_if<op::ReadVar>(&program.values.at(let->id).operation)) {
          ++reads[read->var];
          var_of[let->id] = read->var;
        }
      }
      if (const auto* set = std::get_if<stmt::SetVar>(&statement)) ++sets[set->var];
    }
  }
  std::map<ValueId, int> of_value;
  std::map<VarId, int> reads, sets;
  std::map<ValueId, VarId> var_of;
};

/// Follows the operands of calls of one kind, each used once, to where the var is read.
bool combines(const LoopProgram& program, const Uses& uses, ValueId id, VarId var, ReduceKind kind) {
  const auto used = uses.of_value.find(id);
  if (used == uses.of_value.end() || used->second != 1) return false;
  if (const auto read = uses.var_of.find(id); read != uses.var_of.end()) return read->second == var;
  const auto* call = std::get_if<op::Call>(&program.values.at(id).operation);
  return call && combining_kind(*call) == kind &&
         std::ranges::any_of(call->args, [&](ValueId arg) { return combines(program, uses, arg, var, kind); });
}

}  // namespace

std::optional<ReduceKind> combining_kind(const op::Call& call) {
  static const std::map<std::string_view, ReduceKind> kinds{
      {"+", ReduceKind::Sum}, {"*", ReduceKind::Product}, {"max", ReduceKind::Max}, {"min", ReduceKind::Min}};
  const auto found = kinds.find(call.function->name);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

std::optional<MaskedTerm> masked_term(const LoopProgram& program, const op::Call& call) {
  const auto kind = combining_kind(call);
  if (!kind || call.args.size() != 2) return std::nullopt;
  const auto is_held = [&](ValueId id) { return std::holds_alternative<op::ReadVar>(program.values.at(id).operation); };
  const auto held = std::ranges::find_if(call.args, is_held);
  if (held == call.args.end()) return std::nullopt;
  const ValueId other = call.args[held == call.args.begin() ? 1 : 0];
  const auto* where = std::get_if<op::Call>(&program.values.at(other).operation);
  if (!where || where->function->name != "where") return std::nullopt;
  const auto* none = std::get_if<op::Constant>(&program.values.at(where->args[2]).operation);
  if (!none || none->value != neutral_value(*kind)) return std::nullopt;
  return MaskedTerm{*held, other, where->args[0], where->args[1]};
}

std::vector<Accumulation> accumulations(const LoopProgram& program, const Block& body) {
  std::vector<Accumulation> found;
  const auto is_loop = [](const Statement& statement) { return std::holds_alternative<stmt::For>(statement); };
  if (std::ranges::any_of(body, is_loop)) return found;
  Uses uses(program, body);
  for (const Statement& statement : body) {
    const auto* set = std::get_if<stmt::SetVar>(&statement);
    if (!set || uses.sets[set->var] != 1 || uses.reads[set->var] != 1) continue;
    const auto* call = std::get_if<op::Call>(&program.values.at(set->value).operation);
    const auto kind = call ? combining_kind(*call) : std::nullopt;
    if (kind && combines(program, uses, set->value, set->var, *kind)) found.push_back({set->var, *kind});
  }
  return found;
}

}  // namespace moxie
