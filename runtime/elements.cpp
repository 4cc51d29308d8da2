#include "runtime/elements.h"

#include <cstring>
#include <limits>
#include <type_traits>

namespace moxie {

namespace {

/// 2^63, to which numbers are moved that are too large, is no integer of 64 bits: the largest one stands for it.
template <class Element>
Element element_of(double value) {
  if constexpr (std::is_same_v<Element, std::int64_t>)
    return value < 0x1p63 ? static_cast<std::int64_t>(value) : std::numeric_limits<std::int64_t>::max();
  else
    return static_cast<Element>(value);
}

}  // namespace

void load_elements(DType dtype, const void* from, std::span<double> to) {
  visit_element(dtype, [&]<class Element>(Element element) {
    const auto* at = static_cast<const char*>(from);
    for (double& value : to) {
      std::memcpy(&element, at, sizeof element);
      value = static_cast<double>(element);
      at += sizeof element;
    }
  });
}

void store_elements(DType dtype, std::span<const double> from, void* to) {
  visit_element(dtype, [&]<class Element>(Element element) {
    auto* at = static_cast<char*>(to);
    for (const double value : from) {
      element = element_of<Element>(stored_value(dtype, value));
      std::memcpy(at, &element, sizeof element);
      at += sizeof element;
    }
  });
}

}  // namespace moxie
