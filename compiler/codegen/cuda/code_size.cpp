#include "compiler/codegen/cuda/code_size.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/expression/functions.h"

namespace moxie::cuda_text {
namespace {

constexpr int kMemoryInstructions = 2, kLoopInstructions = 3, kCheckInstructions = 8, kRandomInstructions = 120,
              kCombineInstructions = 40;

/// Average rounds of nested loops: the variables of outer ones stand in the middle of their ranges.
class AverageRounds {
 public:
  std::int64_t enter(const stmt::For& loop) {
    const Range range = loop.range.substitute([&](Symbol s) -> const Affine* {
      const auto it = middles_.find(s);
      return it == middles_.end() ? nullptr : &it->second;
    });
    const auto rounds = constant_rounds(range);
    if (!rounds) return kAssumedTripCount;
    const Bound& low = range.lows[0];
    middles_[loop.variable] = Affine(ceil_div(low.value.constant(), low.divisor) + *rounds / 2);
    return *rounds;
  }

 private:
  std::map<Symbol, Affine> middles_;
};

/// Powers by a literal are multiplications, and a division where it is negative.
int instructions(const LoopProgram& program, const op::Call& call) {
  if (call.function->name == "pow") {
    if (const auto* exponent = std::get_if<op::Constant>(&program.values.at(call.args[1]).operation))
      return exponent->value < 0 ? 8 : 2;
  }
  return call.function->cost;
}

int instructions(const LoopProgram& program, const Operation& operation) {
  if (const auto* call = std::get_if<op::Call>(&operation)) return instructions(program, *call);
  if (std::holds_alternative<op::Load>(operation) || std::holds_alternative<op::LoadArray>(operation))
    return kMemoryInstructions;
  if (std::holds_alternative<op::Random>(operation)) return kRandomInstructions;
  if (std::holds_alternative<op::CombineLanes>(operation)) return kCombineInstructions;
  return std::holds_alternative<op::Convert>(operation) ? 1 : 0;
}

class InstructionCounter {
 public:
  InstructionCounter(const LoopProgram& program, const std::set<Symbol>& unrolled)
      : program_(program), unrolled_(unrolled) {}

  std::int64_t count(const Block& block) {
    std::int64_t sum = 0;
    for (const Statement& statement : block)
      sum += std::visit([this](const auto& s) { return count(s); }, static_cast<const Statement::variant&>(statement));
    return sum;
  }

 private:
  std::int64_t count(const stmt::Let& s) { return instructions(program_, program_.values.at(s.id).operation); }
  std::int64_t count(const stmt::SetVar&) { return 0; }
  std::int64_t count(const stmt::Store&) { return kMemoryInstructions; }
  std::int64_t count(const stmt::StoreArray&) { return kMemoryInstructions; }
  std::int64_t count(const stmt::Check&) { return kCheckInstructions; }
  std::int64_t count(const stmt::For& s) {
    const std::int64_t rounds = rounds_.enter(s);
    const std::int64_t once = count(s.body);
    return unrolled_.contains(s.variable) ? rounds * once : once + kLoopInstructions;
  }

  const LoopProgram& program_;
  const std::set<Symbol>& unrolled_;
  AverageRounds rounds_;
};

/// How often each array is read and written, roughly.
class TrafficCounter {
 public:
  explicit TrafficCounter(const LoopProgram& program) : program_(program), traffic_(program.arrays.size()) {}

  std::vector<double> count(const Block& block) {
    add(block, 1);
    return std::move(traffic_);
  }

 private:
  void add(const Block& block, double times) {
    for (const Statement& statement : block) {
      if (const auto* loop = std::get_if<stmt::For>(&statement))
        add(loop->body, times * static_cast<double>(rounds_.enter(*loop)));
      if (const auto* store = std::get_if<stmt::StoreArray>(&statement)) traffic_[store->array] += times;
      const auto* let = std::get_if<stmt::Let>(&statement);
      const auto* load = let ? std::get_if<op::LoadArray>(&program_.values.at(let->id).operation) : nullptr;
      if (load) traffic_[load->array] += times;
    }
  }

  const LoopProgram& program_;
  std::vector<double> traffic_;
  AverageRounds rounds_;
};

/// The places of arrays where the loop need not be unrolled, and the accesses to memory that this adds.
std::pair<std::vector<ArrayPlace>, double> roll(Symbol loop, const KernelShape& shape,
                                                const std::vector<double>& traffic, std::vector<ArrayPlace> places) {
  double accesses = 0;
  for (std::size_t a = 0; a < places.size(); ++a) {
    if (places[a] != ArrayPlace::registers || !shape.arrays[a].variables.contains(loop)) continue;
    places[a] = ArrayPlace::workspace;
    accesses += traffic[a];
  }
  return {std::move(places), accesses};
}

}  // namespace

std::set<Symbol> loops_to_unroll(const KernelShape& shape, const std::vector<ArrayPlace>& places) {
  std::set<Symbol> unrolled;
  for (std::size_t a = 0; a < places.size(); ++a) {
    if (places[a] == ArrayPlace::registers)
      unrolled.insert(shape.arrays[a].variables.begin(), shape.arrays[a].variables.end());
  }
  return unrolled;
}

std::int64_t instruction_count(const LoopProgram& program, const std::set<Symbol>& unrolled) {
  return InstructionCounter(program, unrolled).count(program.body);
}

void limit_code(const LoopProgram& program, const KernelShape& shape, std::int64_t most,
                std::vector<ArrayPlace>& places) {
  const std::vector<double> traffic = TrafficCounter(program).count(program.body);
  std::set<Symbol> unrolled = loops_to_unroll(shape, places);
  for (std::int64_t count = instruction_count(program, unrolled); count > most && !unrolled.empty();
       count = instruction_count(program, unrolled)) {
    std::vector<ArrayPlace> best;
    double most_saved = -1;
    for (const Symbol loop : unrolled) {
      const auto [rolled, accesses] = roll(loop, shape, traffic, places);
      const auto saved = static_cast<double>(count - instruction_count(program, loops_to_unroll(shape, rolled))) /
                         std::max(accesses, 1.0);
      if (saved > most_saved) best = rolled, most_saved = saved;
    }
    places = std::move(best);
    unrolled = loops_to_unroll(shape, places);
  }
}

}  // namespace moxie::cuda_text
