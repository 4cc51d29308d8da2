#include "compiler/ir/quotients.h"

namespace moxie {

Range Quotient::range() const { return {{{divisor, value - Affine(divisor - 1)}}, {{divisor, value}}}; }

std::optional<Quotient> as_quotient(const Range& range) {
  if (range.highs.size() != 1) return std::nullopt;
  const Quotient quotient{range.highs[0].value, range.highs[0].divisor};
  return quotient.divisor > 1 && range == quotient.range() ? std::optional(quotient) : std::nullopt;
}

}  // namespace moxie
