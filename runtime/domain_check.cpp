#include "runtime/domain_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"
#include "runtime/elements.h"

namespace moxie {
namespace {

/// Elements that are compared before the result is looked at.
constexpr std::size_t kBlock = 1024;

struct Found {
  std::size_t place;
  double value;
};

/// Halves are compared as the floats that they are.
template <class Element>
using Compared = std::conditional_t<sizeof(Element) == 2, float, Element>;

template <class Element>
Element element_at(const std::byte* values, std::size_t place) {
  Element value;
  std::memcpy(&value, values + place * sizeof(Element), sizeof(Element));
  return value;
}

/// The numbers from `low` to `high`, which both are inside.
template <class Number>
struct Limits {
  Number low = std::numeric_limits<Number>::lowest(), high = std::numeric_limits<Number>::max();
  bool holds(Number value) const { return (value >= low) & (value <= high); }
};

/// The compiler knows the trip count, and no iteration branches, so that it vectorises the loop.
template <class Element>
bool whole_block_holds(const std::byte* values, const Limits<Compared<Element>>& limits) {
  using Mask = std::conditional_t<sizeof(Element) == 8, std::uint64_t, std::uint32_t>;
  Mask outside = 0;
  for (std::size_t k = 0; k < kBlock; ++k)
    outside |= Mask{!limits.holds(Compared<Element>(element_at<Element>(values, k)))};
  return outside == 0;
}

template <class Element>
std::optional<Found> first_outside(std::span<const std::byte> values, const Limits<Compared<Element>>& limits) {
  const std::size_t count = values.size() / sizeof(Element);
  std::size_t place = 0;
  while (place + kBlock <= count && whole_block_holds<Element>(values.data() + place * sizeof(Element), limits))
    place += kBlock;
  for (; place < count; ++place) {
    const Compared<Element> value = element_at<Element>(values.data(), place);
    if (!limits.holds(value)) return Found{place, static_cast<double>(value)};
  }
  return std::nullopt;
}

std::optional<Found> first_inexact(std::span<const std::byte> values) {
  return first_outside<std::int64_t>(values, {-kMaxExactInteger, kMaxExactInteger});
}

/// The number next to `value` towards `end`; nothing if there is none.
template <class Number>
std::optional<Number> next_towards(Number end, Number value) {
  if (value == end) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>)
    return std::nextafter(value, end);
  else
    return static_cast<Number>(value < end ? value + 1 : value - 1);
}

/// Bounds are rounded to the dtype. Infinities are outside of any domain.
template <class Number>
Limits<Number> limits_of(DType dtype, const ValueDomain& domain) {
  const Limits<Number> all;
  const auto limit = [&](const std::optional<ValueDomain::Bound>& bound, Number inwards) -> std::optional<Number> {
    const auto value = static_cast<Number>(stored_value(dtype, bound->value));
    return bound->open ? next_towards(inwards, value) : value;
  };
  const auto low = domain.low ? limit(domain.low, all.high) : all.low;
  const auto high = domain.high ? limit(domain.high, all.low) : all.high;
  if (!low || !high) return {all.high, all.low};  // no number is inside
  return {*low, *high};
}

template <class Element>
std::optional<Found> first_outside(DType dtype, const ValueDomain& domain, std::span<const std::byte> bytes) {
  if (domain == ValueDomain::Any) return std::nullopt;
  return first_outside<Element>(bytes, limits_of<Compared<Element>>(dtype, domain));
}

}  // namespace

std::string element_text(std::size_t place, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> element(shape.size());
  auto rest = static_cast<std::int64_t>(place);
  for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) element[axis] = rest % shape[axis];
  return element.empty() ? "" : fmt::format("[{}]", fmt::join(element, ","));
}

std::optional<ErrorDetails> domain_violation(const InputDecl& input, std::span<const std::int64_t> shape,
                                             std::span<const std::byte> values) {
  const auto outside = [&](std::size_t place, std::string value, std::string expected, std::string_view but) {
    const std::string element = input.name + element_text(place, shape);
    return ErrorDetails{.problem = fmt::format("{} = {}, but {}", element, value, but),
                        .name = input.name,
                        .expected = std::move(expected),
                        .found = std::move(value)};
  };
  if (input.dtype == DType::i64) {
    if (const auto found = first_inexact(values))
      return outside(found->place, std::to_string(element_at<std::int64_t>(values.data(), found->place)),
                     "an integer up to 2^53", "integers are computed in f64, which has all of them up to 2^53");
  }
  const auto found = visit_element(
      input.dtype, [&]<class Element>(Element) { return first_outside<Element>(input.dtype, input.domain, values); });
  if (!found) return std::nullopt;
  const double number = without_nan_sign(found->value);
  std::string value = computed_dtype(input.dtype) == DType::f32 ? fmt::format("{}", static_cast<float>(number))
                                                                : fmt::format("{}", number);
  const std::string domain(to_string(input.domain));
  return outside(found->place, std::move(value), domain, fmt::format("{} is declared {}", input.name, domain));
}

void check_domain(const InputDecl& input, std::span<const std::int64_t> shape, std::span<const std::byte> values) {
  auto violation = domain_violation(input, shape, values);
  if (!violation) return;
  violation->remedy = "give other values, or declare another domain in the formula";
  throw DataError(fmt::format("{}; {}", violation->problem, violation->remedy), *violation);
}

}  // namespace moxie
