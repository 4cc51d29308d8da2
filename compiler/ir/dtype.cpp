#include "compiler/ir/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace moxie {
namespace {

constexpr double kLowest32 = std::numeric_limits<std::int32_t>::min();
constexpr double kHighest32 = std::numeric_limits<std::int32_t>::max();

// clang-format off
constexpr std::array kDTypes = {
    //        dtype       name   bytes integers computed    low        high        c          cuda      cuda_store         numpy      formats  safetensors
    DTypeInfo{DType::f32, "f32", 4,    false,   DType::f32, 0,         0,          "float",   "float",  "",                "float32", "f",     "F32"},
    DTypeInfo{DType::f64, "f64", 8,    false,   DType::f64, 0,         0,          "double",  "double", "",                "float64", "d",     "F64"},
    DTypeInfo{DType::i32, "i32", 4,    true,    DType::f64, kLowest32, kHighest32, "int32_t", "int",    "nearest_integer", "int32",   "i",     "I32"},
};
// clang-format on

constexpr bool is_in_order() {
  for (std::size_t k = 0; k < kDTypes.size(); ++k)
    if (kDTypes[k].dtype != static_cast<DType>(k)) return false;
  return kDTypes.back().dtype == kLastDType;
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
    const bool is_last = row.dtype == kLastDType;
    text += fmt::format("{}`{}`", text.empty() ? "" : is_last ? " or " : ", ", row.name);
  }
  return text;
}

double stored_value(DType dtype, double value) {
  const DTypeInfo& info = info_of(dtype);
  if (!info.integers) return value;
  return value > info.low ? std::min(std::nearbyint(value), info.high) : info.low;  // NaN compares false
}

}  // namespace moxie
