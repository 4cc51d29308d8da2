#include "compiler/rewrite/patterns/band.h"

#include <algorithm>
#include <cstdint>

namespace moxie {
namespace {

/// The index that moves the bound, each step by one; false if something else does.
bool takes_row(const Bound& bound, std::optional<Symbol>& row) {
  if (bound.divisor != 1) return false;
  return std::ranges::all_of(bound.value.terms(), [&](const Affine::Term& term) {
    const auto& [symbol, coefficient] = term;
    if (symbol.is_dim()) return true;
    if (coefficient != 1 || (row && *row != symbol)) return false;
    row = symbol;
    return true;
  });
}

}  // namespace

std::optional<Band> band_of(const Range& range) {
  std::optional<Symbol> row;
  const auto takes = [&](const Bound& bound) { return takes_row(bound, row); };
  if (!std::ranges::all_of(range.lows, takes) || !std::ranges::all_of(range.highs, takes) || !row) return std::nullopt;
  return Band{*row, range};
}

std::optional<std::int64_t> width_of(const Band& band) {
  std::optional<std::int64_t> width;
  for (const Bound& low : band.range.lows) {
    for (const Bound& high : band.range.highs) {
      const Affine distance = high.value - low.value + Affine(1);
      const bool both_move = low.value.mentions(band.row) && high.value.mentions(band.row);
      if (both_move && distance.is_constant()) width = std::min(width.value_or(INT64_MAX), distance.constant());
    }
  }
  return width;
}

std::optional<Range> rows_of_triangle(const Band& band, Symbol index) {
  if (band.range.lows.size() != 1 || band.range.highs.size() != 1) return std::nullopt;
  const Affine low = band.range.lows[0].value - Affine(band.row);
  // index >= row + low, as in sums from the diagonal on: row <= index - low.
  if (low.is_constant() && low.constant() >= 0) return Range{{{1, 0}}, {{1, Affine(index) - low}}};
  return std::nullopt;
}

std::optional<Affine> extent_along(const Program& program, const Expr& expr, Symbol index) {
  std::optional<Affine> extent;
  visit(expr, [&](const Expr& e) {
    if (e->kind != NodeKind::Access) return;
    for (std::size_t k = 0; k < e->subscripts.size(); ++k) {
      if (e->subscripts[k].as_symbol() == index) extent = program.shape_of(e->tensor)[k];
    }
  });
  return extent;
}

Scope with_range(Scope scope, Symbol index, const Range& range) {
  for (auto& [symbol, known] : scope.open) {
    if (symbol == index) known = range;
  }
  return scope;
}

}  // namespace moxie
