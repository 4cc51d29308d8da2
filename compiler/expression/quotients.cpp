#include "compiler/expression/quotients.h"

namespace moxie {

Range Quotient::range() const { return {{{divisor, value - Affine(divisor - 1)}}, {{divisor, value}}}; }

std::optional<Affine> exact_quotient(const Affine& value, std::int64_t divisor) {
  Affine result(floor_div(value.constant(), divisor));
  for (const auto& [symbol, coefficient] : value.terms()) {
    if (coefficient % divisor != 0) return std::nullopt;
    result += Affine(symbol) * (coefficient / divisor);
  }
  return result;
}

std::optional<Quotient> as_quotient(const Range& range) {
  if (range.highs.size() != 1) return std::nullopt;
  const Quotient quotient{range.highs[0].value, range.highs[0].divisor};
  return quotient.divisor > 1 && range == quotient.range() ? std::optional(quotient) : std::nullopt;
}

}  // namespace moxie
