#pragma once
// DType: how the elements of a tensor are stored. One table says all that the compiler and its surroundings ask of a
// dtype, so that a new one is one row.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moxie {

enum class DType : std::uint8_t { f32, f64, i32, i64, u8, boolean, f16, bf16 };
inline constexpr DType kLastDType = DType::bf16;

struct DTypeInfo {
  DType dtype;
  const char* name;  // in texts
  int bytes;         // of one element
  bool integers;
  DType computed;              // in which elements are computed
  double low, high;            // the ends of the range of integers
  const char* c;               // in headers of C
  const char* cuda;            // in CUDA C++
  const char* cuda_store;      // the function of CUDA C++ that gives the element for a number; none where it converts
  const char* numpy;           // numpy's name
  const char* buffer_formats;  // the characters of Python's buffer protocol
  const char* safetensors;     // in headers of safetensors files
  int xla;                     // the number of XLA's DataType, which its C interface fixes
};

/// The table, in the order of the enumeration.
std::span<const DTypeInfo> dtypes();
const DTypeInfo& info_of(DType dtype);

inline const char* to_string(DType dtype) { return info_of(dtype).name; }
/// The dtype that a text calls so; nothing for other words.
std::optional<DType> dtype_named(std::string_view name);
/// "`f32`, `f64` or `i32`"
std::string dtype_names();
/// The size of one element.
inline std::int64_t bytes_of(DType dtype) { return info_of(dtype).bytes; }
/// Whether the elements are integers, which may stand in subscripts and have no derivatives.
inline bool holds_integers(DType dtype) { return info_of(dtype).integers; }
/// The dtype in which an element of a tensor is computed: integers are exact in f64.
inline DType computed_dtype(DType stored) { return info_of(stored).computed; }
/// Whether elements are stored as they are computed, which is what libraries take.
inline bool is_stored_as_computed(DType dtype) { return computed_dtype(dtype) == dtype; }
/// Whether it is one of the floating-point numbers of 16 bits.
inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
/// The largest finite number of a dtype in which elements are computed.
double largest_number(DType computed);
/// What a tensor stores for a number. For integers it is the nearest one, and the even one of two that are equally
/// near; numbers beyond the range become its smallest or largest integer, and NaN becomes the smallest. For bool it is
/// 0 for zero and 1 for all else, NaN included. For f16 and bf16 it is the nearest number of the dtype, halves to even,
/// of the nearest f32. To f32 nothing is rounded: the reference computes in double.
double stored_value(DType dtype, double value);

}  // namespace moxie
