#include "compiler/loop/merge_accumulations.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "compiler/loop/accumulations.h"
#include "compiler/loop/known_values.h"
#include "compiler/loop/operands.h"

namespace moxie {
namespace {

/// Where the statements directly in a block set and read a var, and whether loops in it do.
struct VarUses {
  std::vector<std::size_t> sets, reads, loops;  // positions in the block
};

class AccumulatorMerger {
 public:
  AccumulatorMerger(LoopProgram& program, double longest) : program_(program), longest_(longest) {}

  void run() {
    count_uses(program_.body);
    merge(program_.body, {});
    if (merged_) drop_unused_vars();
  }

 private:
  // ---- Uses ----

  void count_uses(const Block& block) {
    for (const Statement& statement : block) {
      for (const ValueId id : operands(program_, statement)) ++uses_[id];
      if (const auto* loop = std::get_if<stmt::For>(&statement)) count_uses(loop->body);
    }
  }

  std::optional<VarId> read_by(const Statement& statement) const {
    const auto* let = std::get_if<stmt::Let>(&statement);
    const auto* read = let ? std::get_if<op::ReadVar>(&program_.values.at(let->id).operation) : nullptr;
    return read ? std::optional(read->var) : std::nullopt;
  }

  void collect_vars(const Block& block, std::set<VarId>& vars) const {
    for (const Statement& statement : block) {
      if (const auto* set = std::get_if<stmt::SetVar>(&statement)) vars.insert(set->var);
      if (const auto var = read_by(statement)) vars.insert(*var);
      if (const auto* loop = std::get_if<stmt::For>(&statement)) collect_vars(loop->body, vars);
    }
  }

  std::map<VarId, VarUses> uses_in(const Block& block) const {
    std::map<VarId, VarUses> uses;
    for (std::size_t k = 0; k < block.size(); ++k) {
      if (const auto* set = std::get_if<stmt::SetVar>(&block[k])) uses[set->var].sets.push_back(k);
      if (const auto var = read_by(block[k])) uses[*var].reads.push_back(k);
      if (const auto* loop = std::get_if<stmt::For>(&block[k])) {
        std::set<VarId> inside;
        collect_vars(loop->body, inside);
        for (const VarId var : inside) uses[var].loops.push_back(k);
      }
    }
    return uses;
  }

  // ---- Merging ----

  /// Inner loops first: what they have merged counts for the chains of the loops around.
  void merge(Block& block, const KnownValues& known) {
    for (Statement& statement : block) {
      auto* loop = std::get_if<stmt::For>(&statement);
      if (!loop) continue;
      KnownValues inside = known;
      const auto values = values_of(loop->range, known);
      if (values) inside.insert_or_assign(loop->variable, *values);
      merge(loop->body, inside);
      const double trips = values ? std::max(0.0, values->high - values->low + 1) : kUnknown;
      merge_inside(loop->body, trips);
      std::set<VarId> vars;
      collect_vars(loop->body, vars);
      for (const VarId var : vars) chains_[var] = trips * (chains_.contains(var) ? chains_[var] : 1);
    }
  }

  /// Until nothing is found: a var that others were merged into may be merged itself.
  void merge_inside(Block& body, double trips) {
    for (;;) {
      const std::map<VarId, VarUses> uses = uses_in(body);
      const std::map<ValueId, VarId> outers = outers_in(body, uses);
      std::map<VarId, VarId> merges;  // from inner to outer vars
      for (const auto& [inner, of_inner] : uses) {
        const auto outer = merges_into(body, uses, outers, inner);
        if (outer && trips * chains_[inner] <= longest_) merges[inner] = *outer;
      }
      if (merges.empty()) return;
      for (const auto& [inner, outer] : merges) chains_[outer] = std::max(chains_[outer], chains_[inner]);
      take_out(body, uses, merges);
      merged_ = true;
    }
  }

  /// Vars that the block combines once with one value: outer = outer + value; by the value.
  std::map<ValueId, VarId> outers_in(const Block& body, const std::map<VarId, VarUses>& uses) const {
    std::map<ValueId, VarId> outers;
    for (const auto& [outer, of_outer] : uses) {
      if (of_outer.sets.size() != 1 || of_outer.reads.size() != 1 || !of_outer.loops.empty()) continue;
      if (of_outer.sets[0] < of_outer.reads[0]) continue;
      const ValueId held = std::get<stmt::Let>(body[of_outer.reads[0]]).id;
      const ValueId sum = std::get<stmt::SetVar>(body[of_outer.sets[0]]).value;
      const auto* call = std::get_if<op::Call>(&program_.values.at(sum).operation);
      if (!call || !combining_kind(*call) || call->args.size() != 2 || std::ranges::count(call->args, held) != 1)
        continue;
      if (uses_.at(held) == 1 && uses_.at(sum) == 1)
        outers[call->args[0] == held ? call->args[1] : call->args[0]] = outer;
    }
    return outers;
  }

  /// The var to which the block adds the inner one: inner = identity; for ..; outer = outer + inner.
  std::optional<VarId> merges_into(const Block& body, const std::map<VarId, VarUses>& uses,
                                   const std::map<ValueId, VarId>& outers, VarId inner) const {
    const VarUses& of_inner = uses.at(inner);
    if (of_inner.sets.size() != 1 || of_inner.reads.size() != 1 || of_inner.loops.size() != 1) return std::nullopt;
    if (of_inner.sets[0] > of_inner.loops[0] || of_inner.reads[0] < of_inner.loops[0]) return std::nullopt;
    const ValueId result = std::get<stmt::Let>(body[of_inner.reads[0]]).id;
    const auto outer = outers.find(result);
    if (outer == outers.end() || uses_.at(result) != 1) return std::nullopt;
    const VarUses& of_outer = uses.at(outer->second);
    if (of_outer.reads[0] < of_inner.loops[0] || program_.vars.at(outer->second) != program_.vars.at(inner))
      return std::nullopt;
    const ValueId sum = std::get<stmt::SetVar>(body[of_outer.sets[0]]).value;
    const ReduceKind kind = *combining_kind(std::get<op::Call>(program_.values.at(sum).operation));
    const bool merges = is_identity(kind, std::get<stmt::SetVar>(body[of_inner.sets[0]]).value) &&
                        accumulates(std::get<stmt::For>(body[of_inner.loops[0]]).body, inner, kind);
    return merges ? std::optional(outer->second) : std::nullopt;
  }

  /// Whether all that the block does with the var is to combine what it holds with more.
  bool accumulates(const Block& block, VarId var, ReduceKind kind) const {
    int sets = 0, reads = 0;
    for (const Statement& statement : block) {
      if (read_by(statement) == var) ++reads;
      const auto* loop = std::get_if<stmt::For>(&statement);
      if (loop && !accumulates(loop->body, var, kind)) return false;
      const auto* set = std::get_if<stmt::SetVar>(&statement);
      if (!set || set->var != var) continue;
      ++sets;
      const auto* call = std::get_if<op::Call>(&program_.values.at(set->value).operation);
      const auto holds_var = [&](ValueId id) {
        const auto* read = std::get_if<op::ReadVar>(&program_.values.at(id).operation);
        return read && read->var == var && uses_.at(id) == 1;
      };
      if (!call || combining_kind(*call) != kind || !std::ranges::any_of(call->args, holds_var)) return false;
    }
    return sets == reads;
  }

  bool is_identity(ReduceKind kind, ValueId id) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto* constant = std::get_if<op::Constant>(&program_.values.at(id).operation);
    if (!constant) return false;
    switch (kind) {
      case ReduceKind::Sum:
        return constant->value == 0;
      case ReduceKind::Product:
        return constant->value == 1;
      case ReduceKind::Max:
        return constant->value == -kInfinity;
      case ReduceKind::Min:
        return constant->value == kInfinity;
      default:
        return false;
    }
  }

  void take_out(Block& body, const std::map<VarId, VarUses>& uses, const std::map<VarId, VarId>& merges) {
    std::set<std::size_t> dropped;
    std::set<ValueId> sums;
    for (const auto& [inner, outer] : merges) {
      const std::size_t set = uses.at(outer).sets[0];
      sums.insert(std::get<stmt::SetVar>(body[set]).value);
      dropped.insert({uses.at(inner).sets[0], uses.at(inner).reads[0], uses.at(outer).reads[0], set});
    }
    for (std::size_t k = 0; k < body.size(); ++k) {
      const auto* let = std::get_if<stmt::Let>(&body[k]);
      if (let && sums.contains(let->id)) dropped.insert(k);
    }
    rename(body, merges);
    Block rest;
    for (std::size_t k = 0; k < body.size(); ++k) {
      if (!dropped.contains(k)) rest.push_back(std::move(body[k]));
    }
    body = std::move(rest);
  }

  void rename(Block& block, const std::map<VarId, VarId>& names) {
    for (Statement& statement : block) {
      if (auto* set = std::get_if<stmt::SetVar>(&statement); set && names.contains(set->var))
        set->var = names.at(set->var);
      if (const auto read = read_by(statement); read && names.contains(*read))
        program_.values.at(std::get<stmt::Let>(statement).id).operation = op::ReadVar{names.at(*read)};
      if (auto* loop = std::get_if<stmt::For>(&statement)) rename(loop->body, names);
    }
  }

  void drop_unused_vars() {
    std::set<VarId> used;
    collect_vars(program_.body, used);
    std::vector<VarDecl> kept;
    std::map<VarId, VarId> places;
    for (const VarId var : used) {
      places[var] = static_cast<VarId>(kept.size());
      kept.push_back(program_.vars.at(var));
    }
    rename(program_.body, places);
    program_.vars = std::move(kept);
  }

  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  LoopProgram& program_;
  double longest_;
  std::map<ValueId, int> uses_;
  std::map<VarId, double> chains_;  // terms that a var takes in the loops that accumulate in it, at most
  bool merged_ = false;
};

}  // namespace

void merge_accumulations(LoopProgram& program, double longest) { AccumulatorMerger(program, longest).run(); }

}  // namespace moxie
