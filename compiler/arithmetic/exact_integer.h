#pragma once
// Which numbers of an expression can take part in affine index arithmetic.
#include <cmath>
#include <cstdint>
#include <optional>

namespace moxie {

/// All integers up to 2^53 are exact in double. Larger ones stay numbers like others, so that sums with indices cannot
/// overflow.
constexpr std::int64_t kMaxExactInteger = std::int64_t{1} << 53;

/// An integer for index arithmetic. Elements of i64 tensors beyond the exact integers are moved to the nearest of them,
/// so that no sum overflows.
inline std::int64_t nearest_exact_integer(double value) {
  constexpr auto kLast = static_cast<double>(kMaxExactInteger);
  return static_cast<std::int64_t>(value > kLast ? kLast : value > -kLast ? value : -kLast);
}

/// The number as an integer, if it is one and no larger in absolute value than kMaxExactInteger.
inline std::optional<std::int64_t> exact_integer(double value) {
  const bool is_exact = std::trunc(value) == value && std::abs(value) <= static_cast<double>(kMaxExactInteger);
  return is_exact ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
}

}  // namespace moxie
