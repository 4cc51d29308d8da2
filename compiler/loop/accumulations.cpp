#include "compiler/loop/accumulations.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
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

namespace {

const op::Call* call_of(const LoopProgram& program, ValueId id, std::string_view function) {
  const auto* call = std::get_if<op::Call>(&program.values.at(id).operation);
  return call && call->function->name == function ? call : nullptr;
}

/// best = where(not best >= element and best == best, element, best); at = where(the same, position, at): positions
/// ascend, so that the first of equal elements is kept. `<=` for minima.
std::optional<Accumulation> ascending_search(const LoopProgram& program, const Uses& uses, const stmt::SetVar& best,
                                             const stmt::SetVar& at) {
  const op::Call* element = call_of(program, best.value, "where");
  const op::Call* position = call_of(program, at.value, "where");
  if (!element || !position || element->args[0] != position->args[0]) return std::nullopt;
  const ValueId held = element->args[2], held_at = position->args[2];
  const auto reads = [&](ValueId value, VarId var, int times) {
    const auto read = uses.var_of.find(value);
    return read != uses.var_of.end() && read->second == var && uses.of_value.at(value) == times;
  };
  const op::Call* replaces = call_of(program, element->args[0], "and");
  if (!replaces || replaces->args.size() != 2 || !reads(held, best.var, 4) || !reads(held_at, at.var, 1))
    return std::nullopt;
  const op::Call* is_worse = call_of(program, replaces->args[0], "not");
  const op::Call* is_number = call_of(program, replaces->args[1], "==");
  if (!is_worse || !is_number || is_number->args != std::vector{held, held}) return std::nullopt;
  for (const auto& [function, kind] : {std::pair(">=", ReduceKind::Max), std::pair("<=", ReduceKind::Min)}) {
    const op::Call* compared = call_of(program, is_worse->args[0], function);
    if (compared && compared->args == std::vector{held, element->args[1]}) return Accumulation{best.var, kind, at.var};
  }
  return std::nullopt;
}

}  // namespace

namespace {

/// Follows statements in their order: every read of a var must go into a sum that becomes the var.
class RunningSums {
 public:
  RunningSums(const LoopProgram& program, const Block& body) : program_(program) {
    count_uses(body);
    walk(body);
  }

  std::vector<VarId> found() const {
    std::vector<VarId> result;
    std::ranges::set_difference(added_to_, others_, std::back_inserter(result));
    return result;
  }

 private:
  void count_uses(const Block& body) {
    for (const Statement& statement : body) {
      for (const ValueId id : operands(program_, statement)) ++uses_[id];
      if (const auto* loop = std::get_if<stmt::For>(&statement)) count_uses(loop->body);
    }
  }

  void walk(const Block& body) {
    for (const Statement& statement : body) {
      if (const auto* let = std::get_if<stmt::Let>(&statement)) {
        if (const auto* read = std::get_if<op::ReadVar>(&program_.values.at(let->id).operation))
          see_read(read->var, let->id);
      } else if (const auto* set = std::get_if<stmt::SetVar>(&statement)) {
        see_set(*set);
      } else if (const auto* loop = std::get_if<stmt::For>(&statement)) {
        // A sum that began before the loop must not end in it.
        for (const auto& [var, read] : read_) others_.insert(var);
        walk(loop->body);
        for (const auto& [var, read] : read_) others_.insert(var);
        read_.clear();
      }
    }
  }

  void see_read(VarId var, ValueId value) {
    if (!read_.emplace(var, value).second) others_.insert(var);
  }

  void see_set(const stmt::SetVar& set) {
    const auto read = read_.find(set.var);
    const bool adds =
        read != read_.end() && program_.vars.at(set.var).type == ValueType::f32 && contains(set.value, read->second);
    (adds ? added_to_ : others_).insert(set.var);
    if (read != read_.end()) read_.erase(read);
  }

  /// Whether the value is a sum of which `term` is a term, and nothing else uses that or a part of the sum around it.
  bool contains(ValueId sum, ValueId term) const {
    const auto uses = uses_.find(sum);
    if (uses == uses_.end() || uses->second != 1) return false;
    if (sum == term) return true;
    const auto* call = std::get_if<op::Call>(&program_.values.at(sum).operation);
    return call && combining_kind(*call) == ReduceKind::Sum &&
           std::ranges::any_of(call->args, [&](ValueId arg) { return contains(arg, term); });
  }

  const LoopProgram& program_;
  std::map<ValueId, int> uses_;
  std::map<VarId, ValueId> read_;  // vars that were read and are not yet set
  std::set<VarId> added_to_, others_;
};

}  // namespace

std::vector<VarId> running_sums(const LoopProgram& program, const Block& body) {
  return RunningSums(program, body).found();
}

std::vector<Accumulation> accumulations(const LoopProgram& program, const Block& body) {
  std::vector<Accumulation> found;
  const auto is_loop = [](const Statement& statement) { return std::holds_alternative<stmt::For>(statement); };
  if (std::ranges::any_of(body, is_loop)) return found;
  Uses uses(program, body);
  std::vector<const stmt::SetVar*> sets;
  for (const Statement& statement : body) {
    const auto* set = std::get_if<stmt::SetVar>(&statement);
    if (set && uses.sets[set->var] == 1 && uses.reads[set->var] == 1) sets.push_back(set);
  }
  for (std::size_t k = 0; k < sets.size(); ++k) {
    const stmt::SetVar* set = sets[k];
    const auto* call = std::get_if<op::Call>(&program.values.at(set->value).operation);
    const auto kind = call ? combining_kind(*call) : std::nullopt;
    if (kind && combines(program, uses, set->value, set->var, *kind)) found.push_back({set->var, *kind});
    const auto search = k + 1 < sets.size() ? ascending_search(program, uses, *set, *sets[k + 1]) : std::nullopt;
    if (search) found.push_back(*search);
  }
  return found;
}

}  // namespace moxie
