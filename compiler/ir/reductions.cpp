#include "compiler/ir/reductions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/error.h"

namespace moxie {
double neutral_value(ReduceKind kind) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::Sum:
      return 0;
    case ReduceKind::Product:
      return 1;
    case ReduceKind::Min:
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      return infinity;
    case ReduceKind::Max:
    case ReduceKind::LogSumExp:
      break;
  }
  return -infinity;
}

std::optional<ReduceKind> extremum_of(ReduceKind kind) {
  if (kind == ReduceKind::ArgMax) return ReduceKind::Max;
  if (kind == ReduceKind::ArgMin) return ReduceKind::Min;
  return std::nullopt;
}

std::optional<ReduceKind> position_of(ReduceKind kind) {
  if (kind == ReduceKind::Max) return ReduceKind::ArgMax;
  if (kind == ReduceKind::Min) return ReduceKind::ArgMin;
  return std::nullopt;
}

Expr count_iterations(const std::vector<std::pair<Symbol, Range>>& loops) {
  std::vector<Expr> counts;
  for (const auto& [symbol, range] : loops) {
    const std::optional<Affine> count = range.known_trip_count();
    // Where another of the loops moves the range, the trip counts are no factors.
    const bool moves =
        count && std::ranges::any_of(loops, [&](const auto& loop) { return count->mentions(loop.first); });
    if (count && !moves)
      counts.push_back(count->is_constant() ? constant(static_cast<double>(count->constant())) : index_value(*count));
  }
  if (counts.size() == loops.size()) return counts.size() == 1 ? counts[0] : call("*", std::move(counts));
  Expr counted = 1;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
    counted = reduce(ReduceKind::Sum, loop->first, loop->second, counted);
  return counted;
}

PlacedValue no_element(ReduceKind kind) {
  const auto extremum = extremum_of(kind);
  if (!extremum) throw InternalError(std::string("the value of ") + to_string(kind) + " is no position");
  return {neutral_value(*extremum), neutral_value(kind)};
}

PlacedValue combine(ReduceKind kind, const PlacedValue& a, const PlacedValue& b) {
  const bool nan_a = std::isnan(a.value), nan_b = std::isnan(b.value);
  if (nan_a != nan_b) return nan_a ? a : b;
  if (nan_a || a.value == b.value) return a.position <= b.position ? a : b;
  return (a.value > b.value) == (kind == ReduceKind::ArgMax) ? a : b;
}

}  // namespace moxie
