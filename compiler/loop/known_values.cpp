#include "compiler/loop/known_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/arithmetic/exact_integer.h"

namespace moxie {

std::optional<VariableRange> values_of(const Affine& affine, const KnownValues& known) {
  VariableRange sum{static_cast<double>(affine.constant()), static_cast<double>(affine.constant())};
  for (const auto& [symbol, factor] : affine.terms()) {
    const auto found = known.find(symbol);
    if (found == known.end()) return std::nullopt;
    const auto [low, high] = found->second;
    sum.low += static_cast<double>(factor) * (factor > 0 ? low : high);
    sum.high += static_cast<double>(factor) * (factor > 0 ? high : low);
  }
  constexpr auto kLargest = static_cast<double>(kMaxExactInteger);
  return sum.low >= -kLargest && sum.high <= kLargest ? std::optional(sum) : std::nullopt;
}

std::optional<VariableRange> values_of(const Range& range, const KnownValues& known) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  VariableRange values{-kInfinity, kInfinity};
  for (const auto& [divisor, value] : range.lows)
    if (const auto bound = values_of(value, known))
      values.low = std::max(values.low, std::ceil(bound->low / static_cast<double>(divisor)));
  for (const auto& [divisor, value] : range.highs)
    if (const auto bound = values_of(value, known))
      values.high = std::min(values.high, std::floor(bound->high / static_cast<double>(divisor)));
  return std::isfinite(values.high - values.low) ? std::optional(values) : std::nullopt;
}

}  // namespace moxie
