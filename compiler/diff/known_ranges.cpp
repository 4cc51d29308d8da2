#include "compiler/diff/known_ranges.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/expression/quotients.h"

namespace moxie {

KnownRanges::KnownRanges(const std::vector<DimDecl>& dims) {
  for (const DimDecl& dim : dims) {
    if (dim.value) fixed_.emplace(Symbol::dim(dim.name), *dim.value);
  }
}

void KnownRanges::add(Symbol symbol, const Range& range) { ranges_.emplace_back(symbol, range); }

void KnownRanges::add_positive(const Affine& extent) {
  if (const auto dim = extent.as_symbol(); dim && dim->is_dim()) smallest_[*dim] = 1;
}

bool KnownRanges::nonnegative(const Affine& affine) const { return nonnegative_in(affine, ranges_.size()); }

/// Replaces the innermost symbol by whichever of its bounds makes the expression smallest; one bound that proves it is
/// enough. Where the rest is as many times an affine number, the bound is rounded: with i >= ceil((f-3)/4), 4*i >= 0
/// for every f >= 0.
bool KnownRanges::nonnegative_in(const Affine& affine, std::size_t symbols) const {
  while (symbols > 0 && !affine.mentions(ranges_[symbols - 1].first)) --symbols;
  if (symbols == 0) return nonnegative_in_dims(affine);
  const auto& [symbol, range] = ranges_[symbols - 1];
  const std::int64_t coefficient = affine.coefficient(symbol);
  const Affine rest = affine - Affine(symbol) * coefficient;
  const auto& bounds = coefficient > 0 ? range.lows : range.highs;
  const auto times = exact_quotient(rest, std::abs(coefficient));
  return std::ranges::any_of(bounds, [&](const Bound& bound) {
    const Affine least =
        times ? *times * bound.divisor + bound.value * (coefficient > 0 ? 1 : -1) + Affine(bound.divisor - 1)
              : rest * bound.divisor + bound.value * coefficient;
    return nonnegative_in(least, symbols - 1);
  });
}

bool KnownRanges::nonnegative_in_dims(const Affine& affine) const {
  std::int64_t least = affine.constant();
  for (const auto& [symbol, coefficient] : affine.terms()) {
    if (const auto fixed = fixed_.find(symbol); fixed != fixed_.end()) {
      least = checked_add(least, checked_mul(coefficient, fixed->second));
      continue;
    }
    if (!symbol.is_dim() || coefficient < 0) return false;
    if (const auto known = smallest_.find(symbol); known != smallest_.end()) {
      least = checked_add(least, checked_mul(coefficient, known->second));
    }
  }
  return least >= 0;
}

/// `sign` is 1 for lower and -1 for upper bounds. A quotient is rounded before it is compared with a whole number.
std::vector<Bound> KnownRanges::tightest(const std::vector<Bound>& bounds, int sign) const {
  const auto implies = [&](const Bound& strong, const Bound& weak) {
    const std::int64_t rounded = weak.divisor == 1 ? strong.divisor - 1 : 0;
    return nonnegative((strong.value * weak.divisor - weak.value * strong.divisor) * sign + Affine(rounded));
  };
  std::vector<Bound> kept;
  for (const Bound& bound : bounds) {
    if (std::ranges::any_of(kept, [&](const Bound& other) { return implies(other, bound); })) continue;
    std::erase_if(kept, [&](const Bound& other) { return implies(bound, other); });
    kept.push_back(bound);
  }
  return kept;
}

Range KnownRanges::without_redundant(const Range& range) const {
  return {tightest(range.lows, 1), tightest(range.highs, -1)};
}

KnownRanges known_inside(const Program& program, const std::vector<Affine>& extents,
                         const std::vector<Range>& axis_ranges) {
  KnownRanges known(program.dims);
  for (const Affine& extent : extents) known.add_positive(extent);
  for (std::size_t k = 0; k < axis_ranges.size(); ++k)
    known.add(Symbol::axis(static_cast<std::uint32_t>(k)), axis_ranges[k]);
  return known;
}

}  // namespace moxie
