#pragma once
// Ranges of which one end moves with an index: sum[j in 0..i+1](..).
#include <optional>

#include "compiler/expression/expr.h"

namespace moxie {

/// The bound of a range that mentions a symbol, with divisor 1.
struct MovingEnd {
  bool is_high = false;
  Affine value;           // inclusive
  std::int64_t step = 0;  // by which it moves from one value of the symbol to the next; not 0
};
/// Nothing where no end moves, several do, or one does by a fraction or by more than `largest_step`.
std::optional<MovingEnd> moving_end(const Range& range, Symbol symbol, std::int64_t largest_step);

}  // namespace moxie
