#include "runtime/elements.h"

#include <cstring>

namespace moxie {

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
      element = static_cast<Element>(stored_value(dtype, value));
      std::memcpy(at, &element, sizeof element);
      at += sizeof element;
    }
  });
}

}  // namespace moxie
