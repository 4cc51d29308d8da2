#pragma once
// NaN in texts.
#include <cmath>
#include <concepts>
#include <limits>

namespace moxie {

/// `value`, a NaN as the one that prints as "nan". The sign of a NaN means nothing: it depends on the processor and on
/// the order of operands (on x86-64 an invalid operation such as 0/0 gives a negative one), but fmt prints it.
template <std::floating_point T>
T without_nan_sign(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

}  // namespace moxie
