#include "compiler/expression/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/arithmetic/half.h"

namespace moxie {
namespace {

constexpr double kLowest32 = std::numeric_limits<std::int32_t>::min();
constexpr double kHighest32 = std::numeric_limits<std::int32_t>::max();

constexpr double kLowest64 = -0x1p63, kHighest64 = 0x1p63;  // 2^63 - 1 is no double

// clang-format off
constexpr std::array kDTypes = {
    //        dtype           name    bytes integers computed    low        high        c           cuda             cuda_store                               numpy       formats  safetensors  xla
    DTypeInfo{DType::f32,     "f32",  4,    false,   DType::f32, 0,         0,          "float",    "float",         "",                                      "float32",  "f",     "F32",       11},
    DTypeInfo{DType::f64,     "f64",  8,    false,   DType::f64, 0,         0,          "double",   "double",        "",                                      "float64",  "d",     "F64",       12},
    DTypeInfo{DType::i32,     "i32",  4,    true,    DType::f64, kLowest32, kHighest32, "int32_t",  "int",           "nearest_integer",                       "int32",    "il",    "I32",       4},
    DTypeInfo{DType::i64,     "i64",  8,    true,    DType::f64, kLowest64, kHighest64, "int64_t",  "long long",     "nearest_long",                          "int64",    "lq",    "I64",       5},
    DTypeInfo{DType::u8,      "u8",   1,    true,    DType::f64, 0,         255,        "uint8_t",  "unsigned char", "nearest_within<unsigned char, 0, 255>", "uint8",    "B",     "U8",        6},
    DTypeInfo{DType::boolean, "bool", 1,    true,    DType::f64, 0,         1,          "bool",     "unsigned char", "truth_byte",                            "bool",     "?",     "BOOL",      1},
    DTypeInfo{DType::f16,     "f16",  2,    false,   DType::f32, 0,         0,          "uint16_t", "F16",           "F16",                                   "float16",  "e",     "F16",       10},
    DTypeInfo{DType::bf16,    "bf16", 2,    false,   DType::f32, 0,         0,          "uint16_t", "BF16",          "BF16",                                  "bfloat16", "H",     "BF16",      16},
};
// clang-format on

constexpr bool is_in_order() {
  for (std::size_t k = 0; k < kDTypes.size(); ++k)
    if (kDTypes[k].dtype != static_cast<DType>(k)) return false;
  return true;
}
static_assert(is_in_order(), "a row for each dtype, in the order of the enumeration");

}  // namespace

std::span<const DTypeInfo> dtypes() { return kDTypes; }
const DTypeInfo& info_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_named(std::string_view name) {
  const auto row = std::ranges::find(kDTypes, name, [](const DTypeInfo& info) { return std::string_view(info.name); });
  return row == kDTypes.end() ? std::nullopt : std::optional(row->dtype);
}

std::string dtype_names() {
  std::string text;
  for (const DTypeInfo& row : kDTypes) {
    const bool is_last = &row == &kDTypes.back();
    text += fmt::format("{}`{}`", text.empty() ? "" : is_last ? " or " : ", ", row.name);
  }
  return text;
}

double largest_number(DType computed) {
  return computed == DType::f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

double stored_value(DType dtype, double value) {
  const DTypeInfo& info = info_of(dtype);
  if (dtype == DType::f16) return f16_value(f16_bits(static_cast<float>(value)));
  if (dtype == DType::bf16) return bf16_value(bf16_bits(static_cast<float>(value)));
  if (dtype == DType::boolean) return value != 0 ? 1 : 0;
  if (!info.integers) return value;
  return value > info.low ? std::min(std::nearbyint(value), info.high) : info.low;  // NaN compares false
}

}  // namespace moxie
