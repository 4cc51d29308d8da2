#pragma once
// The elements of tensors as types of C++.
#include <cstdint>
#include <span>

#include "compiler/ir/dtype.h"

namespace moxie {

/// Calls f with an element of the type in which a tensor of this dtype stores them.
template <class F>
auto visit_element(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      break;
    case DType::i32:
      return f(std::int32_t{});
  }
  return f(double{});
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
