#include "compiler/codegen/cuda/counted_loops.h"

#include <algorithm>
#include <optional>

namespace moxie::cuda_text {
namespace {

/// The largest value of an expression of dims and of the variables of loops around, in dims.
std::optional<Affine> largest(const Affine& value, const CountedLoops& around) {
  Affine sum(value.constant());
  for (const auto& [symbol, coefficient] : value.terms()) {
    if (symbol.is_dim()) {
      sum = sum + Affine(symbol) * coefficient;
      continue;
    }
    const auto loop = std::ranges::find(around.loops, symbol, &stmt::For::variable);
    if (loop == around.loops.end()) return std::nullopt;
    const Affine& rounds = around.rounds[static_cast<std::size_t>(loop - around.loops.begin())];
    if (coefficient > 0) sum = sum + (rounds - Affine(1)) * coefficient;  // the least value is 0
  }
  return sum;
}

bool is_positive(const Bound& low, const CountedLoops& around) {
  return low.value.constant() >= 0 && std::ranges::all_of(low.value.terms(), [&](const auto& term) {
           const bool counted = std::ranges::find(around.loops, term.first, &stmt::For::variable) != around.loops.end();
           return counted && term.second > 0;
         });
}

}  // namespace

bool CountedLoops::add(const stmt::For& loop) {
  if (std::ranges::none_of(loop.range.lows, [&](const Bound& low) { return is_positive(low, *this); })) return false;
  for (const Bound& high : loop.range.highs) {
    const auto last = high.divisor == 1 ? largest(high.value, *this) : std::nullopt;
    if (!last) continue;
    if (!outermost) outermost = &loop;
    loops.push_back(&loop);
    rounds.push_back(*last + Affine(1));
    return true;
  }
  return false;
}

void CountedLoops::put_last(std::size_t k) {
  const auto place = static_cast<std::ptrdiff_t>(k);
  std::rotate(loops.begin() + place, loops.begin() + place + 1, loops.end());
  std::rotate(rounds.begin() + place, rounds.begin() + place + 1, rounds.end());
}

bool has_all_rounds(const stmt::For& loop) {
  const auto extent = loop.range.as_extent();
  return extent && std::ranges::all_of(extent->terms(), [](const auto& term) { return term.first.is_dim(); });
}

const stmt::For* only_loop(const Block& block) {
  const stmt::For* found = nullptr;
  for (const Statement& statement : block) {
    const auto* loop = std::get_if<stmt::For>(&statement);
    if ((loop && found) || (!loop && !std::holds_alternative<stmt::Let>(statement))) return nullptr;
    if (loop) found = loop;
  }
  return found;
}

}  // namespace moxie::cuda_text
