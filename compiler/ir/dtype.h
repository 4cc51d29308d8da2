#pragma once
// DType: how the elements of a tensor are stored.
#include <cstdint>

namespace moxie {

enum class DType : std::uint8_t { f32, f64, i32 };
const char* to_string(DType dtype);
/// The size of one element.
std::int64_t bytes_of(DType dtype);
/// The dtype in which an element of a tensor is computed: integers are exact in f64.
inline DType computed_dtype(DType stored) { return stored == DType::i32 ? DType::f64 : stored; }
/// The integer that an i32 tensor stores for a number. It is the nearest one, and the even one of two that are equally
/// near. Numbers beyond the range of i32 become its smallest or largest integer, and NaN becomes the smallest.
double as_integer(double value);

}  // namespace moxie
