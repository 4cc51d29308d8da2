#include "compiler/expression/moving_end.h"

#include <cstdlib>
#include <vector>

namespace moxie {

std::optional<MovingEnd> moving_end(const Range& range, Symbol symbol, std::int64_t largest_step) {
  std::vector<MovingEnd> found;
  const auto see = [&](const std::vector<Bound>& bounds, bool is_high) {
    for (const Bound& bound : bounds) {
      if (bound.value.mentions(symbol))
        found.push_back({is_high, bound.value, bound.divisor == 1 ? bound.value.coefficient(symbol) : 0});
    }
  };
  see(range.lows, false);
  see(range.highs, true);
  const bool moves = found.size() == 1 && found[0].step != 0 && std::abs(found[0].step) <= largest_step;
  return moves ? std::optional(found[0]) : std::nullopt;
}

}  // namespace moxie
