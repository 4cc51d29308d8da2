#pragma once
// The elements of tensors as types of C++.
#include <cstdint>
#include <span>

#include "compiler/ir/dtype.h"
#include "compiler/ir/half.h"

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

/// Calls f with an element of the type in which a tensor of this dtype stores them; a bool is a byte.
template <class F>
auto visit_element(DType dtype, const F& f) {
  switch (dtype) {  // NOLINT(bugprone-branch-clone): the types differ
    case DType::f32:
      return f(float{});
    case DType::f64:
      break;
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
    case DType::boolean:
      return f(std::uint8_t{});
    case DType::f16:
      return f(Float16{});
    case DType::bf16:
      return f(BFloat16{});
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
