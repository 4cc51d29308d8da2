#include "compiler/ir/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moxie {

const char* to_string(DType dtype) {
  static constexpr const char* names[] = {"f32", "f64", "i32"};
  return names[static_cast<int>(dtype)];
}

std::int64_t bytes_of(DType dtype) { return dtype == DType::f64 ? 8 : 4; }

double as_integer(double value) {
  constexpr double low = std::numeric_limits<std::int32_t>::min(), high = std::numeric_limits<std::int32_t>::max();
  return value > low ? std::min(std::nearbyint(value), high) : low;  // NaN compares false
}

}  // namespace moxie
