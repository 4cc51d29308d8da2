#include "compiler/schedule/latency.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "compiler/loop/operands.h"
#include "compiler/loop/overload.h"

namespace moxie {
namespace {

/// What one execution of a block waits for, as far as the block around it must know.
struct BlockSummary {
  double cycles = 0;        // from its beginning to its end
  double chain = 0;         // cycles that each iteration of a loop adds to what iterations hand on
  double instructions = 0;  // that it executes
  std::set<VarId> sets;
  std::set<ArrayId> stores;
  std::set<ValueId> values;  // computed outside of it
  std::set<VarId> vars;      // that it reads as they are at its beginning
  std::set<ArrayId> arrays;  // that it reads
};

/// When results are there, by their numbers.
struct Times {
  explicit Times(const LoopProgram& program)
      : values(program.values.size()), vars(program.vars.size()), arrays(program.arrays.size()) {}
  std::vector<double> values, vars, arrays;
  double end = 0;
};

class LatencyCounter {
 public:
  LatencyCounter(const LoopTree& tree, const Machine& machine, const Operations& operations)
      : tree_(tree), program_(tree.program()), machine_(machine), operations_(operations) {}

  double run() { return tree_.calls() * summarise(program_.body, nullptr, 1).cycles; }

 private:
  /// `loop` is the one whose body the block is, and makes this many iterations.
  BlockSummary summarise(const Block& block, const stmt::For* loop, double iterations) {
    BlockSummary summary;
    std::set<ValueId> computed;
    for (const Statement& statement : block) note(statement, summary, computed);
    Times once(program_);
    advance(block, once);
    summary.cycles = once.end;
    if (!loop || iterations <= 1) return summary;
    // Two more iterations that begin with what the first one hands on: what they add is what is carried.
    Times second = carried(block, *loop, once);
    advance(block, second);
    Times third = carried(block, *loop, second);
    advance(block, third);
    summary.chain = std::max(0.0, latest_carried(summary, third) - latest_carried(summary, second));
    const double overlapped = std::max(1.0, machine_.instructions_in_flight / std::max(1.0, summary.instructions));
    const double each = std::max(summary.chain, once.end / overlapped);
    summary.cycles = once.end + (iterations - 1) * each;
    summary.chain *= iterations;
    summary.instructions *= iterations;
    return summary;
  }

  void note(const Statement& statement, BlockSummary& summary, std::set<ValueId>& computed) {
    for (const ValueId id : operands(program_, statement)) {
      if (!computed.contains(id)) summary.values.insert(id);
    }
    summary.instructions += operations_.instructions(statement);
    std::visit(Overload{[&](const stmt::Let& s) {
                          computed.insert(s.id);
                          const Operation& operation = program_.values.at(s.id).operation;
                          if (const auto* read = std::get_if<op::ReadVar>(&operation);
                              read && !summary.sets.contains(read->var))
                            summary.vars.insert(read->var);
                          if (const auto* load = std::get_if<op::LoadArray>(&operation))
                            summary.arrays.insert(load->array);
                        },
                        [&](const stmt::SetVar& s) { summary.sets.insert(s.var); },
                        [&](const stmt::StoreArray& s) { summary.stores.insert(s.array); },
                        [&](const stmt::For& s) { note_loop(s, summary, computed); }, [](const auto&) {}},
               static_cast<const Statement::variant&>(statement));
  }

  void note_loop(const stmt::For& s, BlockSummary& summary, const std::set<ValueId>& computed) {
    const BlockSummary& inner =
        summaries_.try_emplace(&s, summarise(s.body, &s, tree_.loops()[tree_.index_of(s)].iterations)).first->second;
    for (const ValueId id : inner.values) {
      if (!computed.contains(id)) summary.values.insert(id);
    }
    for (const VarId var : inner.vars) {
      if (!summary.sets.contains(var)) summary.vars.insert(var);
    }
    summary.arrays.insert(inner.arrays.begin(), inner.arrays.end());
    summary.sets.insert(inner.sets.begin(), inner.sets.end());
    summary.stores.insert(inner.stores.begin(), inner.stores.end());
    summary.instructions += inner.instructions;
  }

  /// Vars hand on what they hold. So do arrays, unless each iteration has elements of its own.
  Times carried(const Block& block, const stmt::For& loop, const Times& times) const {
    Times result(program_);
    result.vars = times.vars;
    for (ArrayId array = 0; array < times.arrays.size(); ++array) {
      if (times.arrays[array] > 0 && !separates(block, array, loop.variable))
        result.arrays[array] = times.arrays[array];
    }
    return result;
  }

  /// Whether all subscripts of the array in the block move with `variable` alike, so that no iteration reads what
  /// another one stored.
  bool separates(const Block& block, ArrayId array, Symbol variable) const {
    std::optional<std::vector<Affine>> first;
    bool separate = true;
    const auto see = [&](const std::vector<Affine>& subscripts) {
      const bool moves = std::ranges::any_of(subscripts, [&](const Affine& a) { return a.mentions(variable); });
      bool alike = true;
      for (std::size_t axis = 0; first && axis < subscripts.size(); ++axis) {
        const Affine& a = subscripts[axis];
        if (a.mentions(variable) || (*first)[axis].mentions(variable)) alike &= a == (*first)[axis];
      }
      separate &= moves && alike;
      if (!first) first = subscripts;
    };
    visit_accesses(block, array, see);
    return separate;
  }

  void visit_accesses(const Block& block, ArrayId array,
                      const std::function<void(const std::vector<Affine>&)>& see) const {
    for (const Statement& statement : block) {
      if (const auto* loop = std::get_if<stmt::For>(&statement)) visit_accesses(loop->body, array, see);
      if (const auto* store = std::get_if<stmt::StoreArray>(&statement); store && store->array == array)
        see(store->subscripts);
      const auto* let = std::get_if<stmt::Let>(&statement);
      const auto* load = let ? std::get_if<op::LoadArray>(&program_.values.at(let->id).operation) : nullptr;
      if (load && load->array == array) see(load->subscripts);
    }
  }

  static double latest_carried(const BlockSummary& summary, const Times& times) {
    double latest = 0;
    for (const VarId var : summary.vars) {
      if (summary.sets.contains(var)) latest = std::max(latest, times.vars[var]);
    }
    for (const ArrayId array : summary.arrays) {
      if (summary.stores.contains(array)) latest = std::max(latest, times.arrays[array]);
    }
    return latest;
  }

  void advance(const Block& block, Times& times) const {
    for (const Statement& statement : block) std::visit([&](const auto& s) { advance(s, times); }, statement);
  }

  double operands_ready(std::span<const ValueId> ids, const Times& times) const {
    double ready = 0;
    for (const ValueId id : ids) ready = std::max(ready, times.values[id]);
    return ready;
  }

  void finish(double time, Times& times) const { times.end = std::max(times.end, time); }

  void advance(const stmt::Let& s, Times& times) const {
    const Operation& operation = program_.values.at(s.id).operation;
    double ready = operands_ready(operands(operation), times);
    if (const auto* read = std::get_if<op::ReadVar>(&operation)) ready = times.vars[read->var];
    if (const auto* load = std::get_if<op::LoadArray>(&operation)) {
      const double stored = times.arrays[load->array];
      ready = std::max(ready, stored > 0 ? stored + machine_.forward_latency - machine_.load_latency : 0);
    }
    times.values[s.id] = ready + operations_.latency(s.id);
    finish(times.values[s.id], times);
  }
  void advance(const stmt::SetVar& s, Times& times) const { times.vars[s.var] = times.values[s.value]; }
  void advance(const stmt::Store&, Times&) const {}
  void advance(const stmt::StoreArray& s, Times& times) const {
    double& stored = times.arrays[s.array];
    stored = std::max(stored, times.values[s.value]);
  }
  void advance(const stmt::Check&, Times&) const {}
  void advance(const stmt::For& s, Times& times) const {
    const BlockSummary& inner = summaries_.at(&s);
    double start = 0;
    for (const ValueId id : inner.values) start = std::max(start, times.values[id]);
    for (const VarId var : inner.vars) {
      if (!inner.sets.contains(var)) start = std::max(start, times.vars[var]);
    }
    for (const ArrayId array : inner.arrays) {
      if (!inner.stores.contains(array)) start = std::max(start, times.arrays[array]);
    }
    for (const VarId var : inner.sets) {
      double& ready = times.vars[var];
      ready = std::max(start + inner.cycles, inner.vars.contains(var) ? ready + inner.chain : 0);
    }
    for (const ArrayId array : inner.stores) {
      double& ready = times.arrays[array];
      ready = std::max(start + inner.cycles, inner.arrays.contains(array) ? ready + inner.chain : 0);
    }
    finish(start + inner.cycles, times);
    for (const VarId var : inner.sets) finish(times.vars[var], times);
    for (const ArrayId array : inner.stores) finish(times.arrays[array], times);
  }

  const LoopTree& tree_;
  const LoopProgram& program_;
  const Machine& machine_;
  const Operations& operations_;
  std::map<const stmt::For*, BlockSummary> summaries_;
};

}  // namespace

double count_latency(const LoopTree& tree, const Machine& machine, const Operations& operations) {
  return LatencyCounter(tree, machine, operations).run();
}

}  // namespace moxie
