#include "compiler/rewrite/algebra/range_bounds.h"

#include <cstdlib>

#include "compiler/expression/quotients.h"

namespace moxie {

IndexDomain domain_of(const Scope& scope) {
  IndexDomain domain({});
  for (const auto& [symbol, range] : scope.open) domain.add_range(symbol, range);
  return domain;
}

Range with_bound(Range range, Symbol index, const Affine& affine) {
  const std::int64_t coefficient = affine.coefficient(index);
  const Affine rest = affine - Affine(index) * coefficient;
  const auto whole = exact_quotient(rest, std::abs(coefficient));
  if (coefficient > 0)
    range.lows.push_back(whole ? Bound{1, -*whole} : Bound{coefficient, -rest});
  else
    range.highs.push_back(whole ? Bound{1, *whole} : Bound{-coefficient, rest});
  return range;
}

Affine fixed_start(const Range& range) {
  const bool is_fixed =
      range.lows.size() == 1 && range.lows[0].divisor == 1 &&
      std::ranges::all_of(range.lows[0].value.terms(), [](const auto& t) { return t.first.is_dim(); });
  return is_fixed ? range.lows[0].value : Affine(0);
}

Range shifted(Range range, const Affine& by) {
  for (Bound& bound : range.lows) bound.value += by * bound.divisor;
  for (Bound& bound : range.highs) bound.value += by * bound.divisor;
  return range;
}

OpenedReduce opened_from_zero(const Expr& reduction) {
  OpenedReduce opened = open(reduction);
  const Affine first = fixed_start(opened.range);
  Range range = shifted(opened.range, -first);
  if (first == Affine(0) || !range.as_extent()) return opened;
  const Replacement moved = {{opened.index, Affine(opened.index) + first}};
  opened.body = substitute(opened.body, moved);
  if (opened.position) opened.position = substitute(opened.position, moved);
  opened.range = std::move(range);
  return opened;
}

bool is_part_of(const Range& part, const Range& whole) {
  const auto has_all = [](const std::vector<Bound>& bounds, const std::vector<Bound>& others) {
    return std::ranges::all_of(others, [&](const Bound& b) { return std::ranges::find(bounds, b) != bounds.end(); });
  };
  return has_all(part.lows, whole.lows) && has_all(part.highs, whole.highs);
}

Range without_idle_bounds(Range range, Symbol index, const IndexDomain& around) {
  // The last ones are the first to be kept.
  const auto drop = [&](std::vector<Bound> Range::* ends, int sign) {
    for (std::size_t k = 0; k < (range.*ends).size() && (range.*ends).size() > 1;) {
      const Bound bound = (range.*ends)[k];
      Range others = range;
      (others.*ends).erase((others.*ends).begin() + static_cast<std::ptrdiff_t>(k));
      IndexDomain domain = around;
      domain.add_range(index, others);
      const Affine distance = (Affine(index) * bound.divisor - bound.value) * sign;
      if (domain.prove_nonnegative(distance) == Proof::Holds)
        range = std::move(others);
      else
        ++k;
    }
  };
  drop(&Range::lows, 1);
  drop(&Range::highs, -1);
  return range;
}

}  // namespace moxie
