#include "compiler/loop/interleave.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/expression/functions.h"
#include "compiler/loop/accumulations.h"
#include "compiler/loop/known_values.h"

namespace moxie {
namespace {

// A processor begins so many operations and loads in a cycle. An addition takes kLatency cycles; a search for an
// extremum hands on two comparisons and a choice.
constexpr double kOperationsPerCycle = 2, kLoadsPerCycle = 2, kLatency = 4, kSearchLatency = 9;
/// More gain nothing: with four partial sums the loads are what a sum waits for.
constexpr int kMaxInterleave = 4;
/// Partial results that registers have room for, beside what an iteration computes; AVX2 has sixteen registers.
constexpr int kMaxPartials = 8;
/// Loops that are known to be shorter gain less than starting and combining partial results costs, in compile time too.
constexpr double kMinTrips = 16;

/// The cycles of one iteration if none waited for another.
double cycles(const LoopProgram& program, const Block& body) {
  double operations = 0, loads = 0;
  for (const Statement& statement : body) {
    const auto* let = std::get_if<stmt::Let>(&statement);
    if (!let) continue;
    const Operation& operation = program.values.at(let->id).operation;
    if (const auto* call = std::get_if<op::Call>(&operation))
      operations += call->function->cost * std::max<double>(1, static_cast<double>(call->args.size()) - 1);
    loads += std::holds_alternative<op::Load>(operation) || std::holds_alternative<op::LoadArray>(operation) ? 1 : 0;
  }
  return std::max(operations / kOperationsPerCycle, loads / kLoadsPerCycle);
}

/// Whether other loops move a bound: on average, the loop then makes half of the iterations that it makes at most.
bool is_moved(const Range& range) {
  const auto moves = [](const Bound& bound) {
    return std::ranges::any_of(bound.value.terms(), [](const auto& term) { return !term.first.is_dim(); });
  };
  return std::ranges::any_of(range.lows, moves) || std::ranges::any_of(range.highs, moves);
}

bool is_short_loop(const Range& range, const KnownValues& known) {
  const auto values = values_of(range, known);
  return values && (values->high - values->low + 1) / (is_moved(range) ? 2 : 1) < kMinTrips;
}

int iterations_at_once(const LoopProgram& program, const Block& body) {
  int count = 0;
  double latency = 0;
  for (const Accumulation& accumulation : accumulations(program, body)) {
    count += accumulation.position ? 2 : 1;
    latency = std::max(latency, accumulation.position ? kSearchLatency : kLatency);
  }
  if (count == 0) return 1;
  const double waits = std::ceil(latency / std::max(cycles(program, body), 1.0));
  const auto hiding = std::bit_ceil(static_cast<unsigned>(waits));
  const auto room = std::bit_floor(static_cast<unsigned>(std::max(1, kMaxPartials / count)));
  return std::min({static_cast<int>(hiding), static_cast<int>(room), kMaxInterleave});
}

void interleave_loops(const LoopProgram& program, Block& block, KnownValues known) {
  for (Statement& statement : block) {
    auto* loop = std::get_if<stmt::For>(&statement);
    if (!loop) continue;
    loop->interleave = is_short_loop(loop->range, known) ? 1 : iterations_at_once(program, loop->body);
    if (const auto values = values_of(loop->range, known)) known.insert_or_assign(loop->variable, *values);
    interleave_loops(program, loop->body, known);
    known.erase(loop->variable);
  }
}

}  // namespace

void interleave(LoopProgram& program) { interleave_loops(program, program.body, {}); }

}  // namespace moxie
