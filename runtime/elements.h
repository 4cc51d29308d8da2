#pragma once
// The elements of tensors as types of C++.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>

#include "compiler/arithmetic/half.h"
#include "compiler/expression/dtype.h"

namespace moxie {

/// An element of an f16 tensor.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(double value) : bits(f16_bits(static_cast<float>(value))) {}
  operator float() const { return f16_value(bits); }  // NOLINT: an element is a number
};

/// An element of a bf16 tensor.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(double value) : bits(bf16_bits(static_cast<float>(value))) {}
  operator float() const { return bf16_value(bits); }  // NOLINT: an element is a number
};

/// The types of C++ in which elements are stored, in the order of DType.
using ElementTypes = std::tuple<float, double, std::int32_t, std::int64_t, std::uint8_t, bool, Float16, BFloat16>;
static_assert(std::tuple_size_v<ElementTypes> == static_cast<std::size_t>(kLastDType) + 1);

/// The place of a type in ElementTypes, or their number.
template <class T, std::size_t kPlace = 0>
constexpr std::size_t place_of_element() {
  if constexpr (kPlace == std::tuple_size_v<ElementTypes>)
    return kPlace;
  else if constexpr (std::same_as<T, std::tuple_element_t<kPlace, ElementTypes>>)
    return kPlace;
  else
    return place_of_element<T, kPlace + 1>();
}

/// Calls f with an element of the type in which a tensor of this dtype stores them; a bool is a byte.
template <std::size_t kPlace = 0, class F>
auto visit_element(DType dtype, const F& f) {
  using Element = std::tuple_element_t<kPlace, ElementTypes>;
  constexpr bool is_last = kPlace + 1 == std::tuple_size_v<ElementTypes>;
  if constexpr (!is_last) {
    if (dtype != static_cast<DType>(kPlace)) return visit_element<kPlace + 1>(dtype, f);
  }
  return f(std::conditional_t<std::same_as<Element, bool>, std::uint8_t, Element>{});
}

/// Calls f with a float or a double: the type in which a tensor of this dtype is computed.
template <class F>
auto visit_computed(DType dtype, const F& f) {
  return computed_dtype(dtype) == DType::f32 ? f(float{}) : f(double{});
}

/// As many elements as `to` holds, which need not be aligned.
void load_elements(DType dtype, const void* from, std::span<double> to);
/// Values that the dtype has are kept; others become what a tensor stores for them.
void store_elements(DType dtype, std::span<const double> from, void* to);

}  // namespace moxie
