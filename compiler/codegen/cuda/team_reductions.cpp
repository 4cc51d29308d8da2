#include "compiler/codegen/cuda/team_reductions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/ir/functions.h"

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
      auto accumulations = is_long(loop->range) ? accumulations_of(block, k) : std::vector<Accumulation>{};
      if (accumulations.empty())
        search(loop->body);
      else
        found[loop] = std::move(accumulations);
    }
  }

 private:
  static bool is_long(const Range& range) {
    const auto rounds = constant_rounds(range);
    return !rounds || *rounds > kWarp;
  }

  const op::ReadVar* read_of(ValueId id) const { return std::get_if<op::ReadVar>(&program_.values.at(id).operation); }

  /// Of the loop at `place`; empty if it does anything that must not be shared.
  std::vector<Accumulation> accumulations_of(const Block& block, std::size_t place) const {
    const stmt::For& loop = std::get<stmt::For>(block[place]);
    std::vector<Accumulation> result;
    for (const Statement& s : loop.body) {
      const auto* set = std::get_if<stmt::SetVar>(&s);
      if (!set || is_local(loop.body, set->var)) continue;
      const auto kind = accumulated(*set);
      if (!kind || (uniform_ && program_.vars.at(set->var).varying) || reads_in(loop.body, set->var) != 1 ||
          !starts_neutral(block, place, set->var, *kind))
        return {};
      result.push_back({set->var, *kind});
    }
    const bool pure = only_computes(loop.body, result, true);
    return pure ? result : std::vector<Accumulation>{};
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

  /// Nothing is stored or checked, nothing is read that threads would wait for, and inner loops set vars of their own
  /// only.
  bool only_computes(const Block& body, const std::vector<Accumulation>& accumulations, bool outermost) const {
    return std::ranges::all_of(body, [&](const Statement& s) {
      if (const auto* loop = std::get_if<stmt::For>(&s)) return only_computes(loop->body, accumulations, false);
      if (const auto* set = std::get_if<stmt::SetVar>(&s))
        return outermost || std::ranges::find(accumulations, set->var, &Accumulation::var) == accumulations.end();
      const auto* let = std::get_if<stmt::Let>(&s);
      return let && !std::holds_alternative<op::LoadArray>(program_.values.at(let->id).operation);
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
  if (shape.vector_loop) finder.search(shape.vector_loop->body);
  return std::move(finder.found);
}

}  // namespace

Reductions find_team_reductions(const LoopProgram& program, const KernelShape& shape) {
  return find(program, shape, false);
}
Reductions find_uniform_reductions(const LoopProgram& program, const KernelShape& shape) {
  return find(program, shape, true);
}

int contiguous_loads(const LoopProgram& program, const stmt::For& loop, Symbol vector) {
  int balance = 0;
  visit_statements(loop.body, [&](const Statement& s) {
    const auto* let = std::get_if<stmt::Let>(&s);
    const auto* load = let ? std::get_if<op::Load>(&program.values.at(let->id).operation) : nullptr;
    if (!load) return;
    const BufferDecl& buffer = program.buffers.at(load->buffer);
    balance += is_contiguous(buffer, *load, loop.variable) - is_contiguous(buffer, *load, vector);
  });
  return balance;
}

}  // namespace moxie::cuda_text
