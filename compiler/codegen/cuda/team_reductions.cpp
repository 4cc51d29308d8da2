#include "compiler/codegen/cuda/team_reductions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/expression/functions.h"

namespace moxie::cuda_text {
namespace {

struct Combination {
  std::string_view function;
  ReduceKind kind;
  double neutral;
};
constexpr Combination kCombinations[] = {{"+", ReduceKind::Sum, 0},
                                         {"*", ReduceKind::Product, 1},
                                         {"max", ReduceKind::Max, -HUGE_VAL},
                                         {"min", ReduceKind::Min, HUGE_VAL}};

class ReductionFinder {
 public:
  ReductionFinder(const LoopProgram& program, const KernelShape& shape, bool uniform)
      : program_(program), shape_(shape), uniform_(uniform) {
    visit_statements(program.body, [&](const Statement& s) {
      if (const auto* let = std::get_if<stmt::Let>(&s)) {
        if (const auto* read = read_of(let->id)) ++reads_[read->var];
      }
    });
  }

  Reductions found;

  void search(const Block& block) {
    for (std::size_t k = 0; k < block.size(); ++k) {
      const auto* loop = std::get_if<stmt::For>(&block[k]);
      if (!loop || (!uniform_ && shape_.shared_out.contains(loop))) continue;
      SharedReduction reduction{counted_from(*loop), accumulations_of(block, k), loop};
      if (!uniform_) put_contiguous_last(reduction.counted);
      if (!reduction.counted.loops.empty()) reduction.innermost = reduction.counted.loops.back();
      if (reduction.sums.empty() || !is_long(reduction)) {
        search(loop->body);
      } else if (Reductions inside = better_inside(*loop, reduction); !inside.empty()) {
        found.merge(std::move(inside));
      } else {
        found[loop] = std::move(reduction);
      }
    }
  }

 private:
  static bool is_long(const SharedReduction& reduction) {
    const auto rounds = constant_rounds(reduction);
    return !rounds || *rounds > kWarp;
  }

  /// Counted through as far as they are bounded so.
  static CountedLoops counted_from(const stmt::For& outermost) {
    CountedLoops counted;
    for (const stmt::For* loop = &outermost; loop && counted.add(*loop); loop = only_loop(loop->body)) {
    }
    return counted;
  }

  /// The order of the indices of a sum says nothing of the memory.
  void put_contiguous_last(CountedLoops& counted) const {
    const auto reads = [&](const stmt::For* loop) { return contiguous_loads(program_, *loop, shape_.vector_loop); };
    const auto best = std::ranges::max_element(counted.loops, {}, reads);
    if (best != counted.loops.end() && reads(*best) > reads(counted.loops.back()))
      counted.put_last(static_cast<std::size_t>(best - counted.loops.begin()));
  }

  /// How well neighbours among its rounds read.
  int contiguous(const SharedReduction& reduction) const {
    return contiguous_loads(program_, *reduction.innermost, shape_.vector_loop);
  }

  /// Reductions in the loop that read better than the one that it is part of, which has its outermost loop.
  Reductions better_inside(const stmt::For& loop, const SharedReduction& outer) {
    if (uniform_) return {};
    Reductions others = std::exchange(found, {});
    search(loop.body);
    Reductions inside = std::exchange(found, std::move(others));
    const bool better =
        std::ranges::any_of(inside, [&](const auto& entry) { return contiguous(entry.second) > contiguous(outer); });
    return better ? inside : Reductions{};
  }

  const op::ReadVar* read_of(ValueId id) const { return std::get_if<op::ReadVar>(&program_.values.at(id).operation); }

  /// Of the loop at `place` and those in it; empty if it does anything that must not be shared.
  std::vector<Accumulation> accumulations_of(const Block& block, std::size_t place) const {
    const stmt::For& loop = std::get<stmt::For>(block[place]);
    CountedLoops shared = counted_from(loop);
    if (shared.loops.empty()) shared.loops.push_back(&loop);
    if (!only_computes(loop.body, shared.loops)) return {};
    std::vector<const stmt::SetVar*> sets;
    visit_statements(loop.body, [&](const Statement& s) {
      const auto* set = std::get_if<stmt::SetVar>(&s);
      if (set && !is_local(loop.body, set->var)) sets.push_back(set);
    });
    std::vector<Accumulation> result;
    for (std::size_t k = 0; k < sets.size(); ++k) {
      const auto sum = accumulated(*sets[k]);
      const auto search = sum || k + 1 == sets.size() ? std::nullopt : searched(*sets[k], *sets[k + 1]);
      if (!sum && !search) return {};
      result.push_back({sets[k]->var, sum ? *sum : *search});
      if (search) result.push_back({sets[++k]->var, ReduceKind::Min, sets[k - 1]->var});
    }
    const auto shares = [&](const Accumulation& a) {
      return !(uniform_ && (program_.vars.at(a.var).varying || a.position_of)) && reads_in(loop.body, a.var) == 1 &&
             std::ranges::count(result, a.var, &Accumulation::var) == 1 && starts_neutral(block, place, a.var, a.kind);
    };
    return std::ranges::all_of(result, shares) ? result : std::vector<Accumulation>{};
  }

  /// best = where(replaces, element, best); at = where(replaces, position, at): which extremum that finds.
  std::optional<ReduceKind> searched(const stmt::SetVar& best, const stmt::SetVar& at) const {
    const auto* of_best = replacement(best);
    const auto* of_position = replacement(at);
    if (!of_best || !of_position || of_best->args[0] != of_position->args[0]) return std::nullopt;
    return compares_as(of_best->args[0]);
  }

  const op::Call* replacement(const stmt::SetVar& set) const {
    const auto* call = std::get_if<op::Call>(&program_.values.at(set.value).operation);
    const auto* held = call && call->function->name == "where" ? read_of(call->args[2]) : nullptr;
    return held && held->var == set.var ? call : nullptr;
  }

  /// By the comparison that decides: a maximum is replaced where it is not >= the element.
  std::optional<ReduceKind> compares_as(ValueId condition) const {
    const auto* call = std::get_if<op::Call>(&program_.values.at(condition).operation);
    if (!call) return std::nullopt;
    if (call->function->name == ">=") return ReduceKind::Max;
    if (call->function->name == "<=") return ReduceKind::Min;
    for (const ValueId arg : call->args) {
      if (const auto kind = compares_as(arg)) return kind;
    }
    return std::nullopt;
  }

  /// A var whose every use lies in the block, such as that of a reduction in it.
  bool is_local(const Block& block, VarId var) const {
    const auto all = reads_.find(var);
    return all == reads_.end() || reads_in(block, var) == all->second;
  }

  int reads_in(const Block& block, VarId var) const {
    int count = 0;
    visit_statements(block, [&](const Statement& s) {
      const auto* let = std::get_if<stmt::Let>(&s);
      const auto* read = let ? read_of(let->id) : nullptr;
      count += read && read->var == var;
    });
    return count;
  }

  /// var = var + something
  std::optional<ReduceKind> accumulated(const stmt::SetVar& set) const {
    const auto* call = std::get_if<op::Call>(&program_.values.at(set.value).operation);
    if (!call || call->args.size() != 2) return std::nullopt;
    const auto* read = read_of(call->args[0]);
    const auto combination = std::ranges::find(kCombinations, call->function->name, &Combination::function);
    if (!read || read->var != set.var || combination == std::end(kCombinations)) return std::nullopt;
    return combination->kind;
  }

  bool starts_neutral(const Block& block, std::size_t place, VarId var, ReduceKind kind) const {
    while (place-- > 0) {
      if (const auto* set = std::get_if<stmt::SetVar>(&block[place]); set && set->var == var) {
        const auto* start = std::get_if<op::Constant>(&program_.values.at(set->value).operation);
        return start && start->value == std::ranges::find(kCombinations, kind, &Combination::kind)->neutral;
      }
      if (std::holds_alternative<stmt::For>(block[place])) return false;
    }
    return false;
  }

  /// Nothing is stored but what each of the rounds that are shared out has for itself, nothing is checked, nothing is
  /// read that threads would wait for, and the rounds of no loop inside are shared out, too.
  bool only_computes(const Block& body, const std::vector<const stmt::For*>& shared) const {
    return std::ranges::all_of(body, [&](const Statement& s) {
      if (const auto* loop = std::get_if<stmt::For>(&s))
        return (uniform_ || !shape_.shared_out.contains(loop)) && only_computes(loop->body, shared);
      if (std::holds_alternative<stmt::SetVar>(s)) return true;
      if (const auto* store = std::get_if<stmt::Store>(&s)) return !uniform_ && tells_apart(*store, shared);
      const auto* let = std::get_if<stmt::Let>(&s);
      return let && !std::holds_alternative<op::LoadArray>(program_.values.at(let->id).operation);
    });
  }

  static bool tells_apart(const stmt::Store& store, const std::vector<const stmt::For*>& loops) {
    return std::ranges::all_of(loops, [&](const stmt::For* loop) {
      return std::ranges::find(store.subscripts, Affine(loop->variable)) != store.subscripts.end();
    });
  }

  const LoopProgram& program_;
  const KernelShape& shape_;
  bool uniform_;
  std::map<VarId, int> reads_;
};

/// Whether rounds that follow each other in `variable` read elements next to each other.
bool is_contiguous(const BufferDecl& buffer, const op::Load& load, Symbol variable) {
  for (const std::uint32_t axis : buffer.layout) {
    const std::int64_t coefficient = load.subscripts[axis].coefficient(variable);
    if (coefficient != 0) return axis == buffer.layout.back() && coefficient == 1;
  }
  return false;
}

Reductions find(const LoopProgram& program, const KernelShape& shape, bool uniform) {
  ReductionFinder finder(program, shape, uniform);
  if (shape.vector_loop)
    finder.search(shape.vector_loop->body);
  else if (!uniform)
    finder.search(program.body);
  return std::move(finder.found);
}

}  // namespace

std::optional<std::int64_t> constant_rounds(const SharedReduction& reduction) {
  if (reduction.counted.loops.empty()) return constant_rounds(reduction.innermost->range);
  std::int64_t all = 1;
  for (const Affine& rounds : reduction.counted.rounds) {
    if (!rounds.is_constant()) return std::nullopt;
    all = checked_mul(all, std::max<std::int64_t>(rounds.constant(), 0));
  }
  return all;
}

Reductions find_team_reductions(const LoopProgram& program, const KernelShape& shape) {
  return find(program, shape, false);
}
Reductions find_uniform_reductions(const LoopProgram& program, const KernelShape& shape) {
  return find(program, shape, true);
}

int contiguous_loads(const LoopProgram& program, const stmt::For& loop, const stmt::For* vector) {
  int balance = 0;
  visit_statements(loop.body, [&](const Statement& s) {
    const auto* let = std::get_if<stmt::Let>(&s);
    const auto* load = let ? std::get_if<op::Load>(&program.values.at(let->id).operation) : nullptr;
    if (!load) return;
    const BufferDecl& buffer = program.buffers.at(load->buffer);
    balance += is_contiguous(buffer, *load, loop.variable);
    if (vector) balance -= is_contiguous(buffer, *load, vector->variable);
  });
  return balance;
}

}  // namespace moxie::cuda_text
