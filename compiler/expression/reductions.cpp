#include "compiler/expression/reductions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/expression/functions.h"
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

bool is_mask(const Expr& expr, double neutral) { return is_call(expr, "where") && expr->args[2]->is_constant(neutral); }

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

Expr first_position(const Range& range) {
  const Expr first = index_value(range.lows.front().value);
  if (range.has_iterations()) return first;
  const Expr last = index_value(range.highs.front().value);
  return call("where", {call("<=", {first, last}), first, constant(neutral_value(ReduceKind::ArgMax))});
}

bool is_left_out(const Expr& value) {
  const bool is_negated = is_call(value, "neg");
  const Expr& number = is_negated ? value->args[0] : value;
  return number->kind == NodeKind::Constant && std::isinf(number->value) && (number->value < 0) != is_negated;
}

Expr softmax_element(const Expr& element, const Expr& total) {
  const auto share = [&](const Expr& exponent) { return call("exp", {exponent - total}); };
  if (!is_call(element, "where") || !is_left_out(element->args[2])) return share(element);
  return call("where", {element->args[0], share(element->args[1]), 0});
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
