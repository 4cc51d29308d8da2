#include "runtime/host_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"
#include "runtime/elements.h"

namespace moxie {
namespace {

void check_integers(DType dtype, std::span<const double> values) {
  const DTypeInfo& info = info_of(dtype);
  constexpr auto kExact = static_cast<double>(kMaxExactInteger);
  const double low = std::max(info.low, -kExact), high = std::min(info.high, kExact);
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (std::trunc(values[k]) == values[k] && values[k] >= low && values[k] <= high) continue;
    throw DataError(
        fmt::format("element {} is {}, but an {} tensor holds integers from {:.0f} to {:.0f}; "
                    "round the values, or declare another dtype",
                    k, without_nan_sign(values[k]), info.name, low, high));
  }
}

}  // namespace

std::size_t size_of(DType dtype) { return static_cast<std::size_t>(bytes_of(dtype)); }

std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
      throw DataError(
          fmt::format("[{}] cannot be a tensor's shape: an extent is negative or there are too many elements",
                      fmt::join(shape, ", ")));
  return count;
}

HostTensor make_host_tensor(DType dtype, std::vector<std::int64_t> shape, std::span<const double> values) {
  if (static_cast<std::uint64_t>(element_count(shape)) != values.size())
    throw DataError(fmt::format("{} values do not fill a tensor of shape [{}]", values.size(), fmt::join(shape, ", ")));
  if (holds_integers(dtype)) check_integers(dtype, values);
  std::vector<std::byte> data(values.size() * size_of(dtype));
  store_elements(dtype, values, data.data());
  return {dtype, std::move(shape), std::move(data)};
}

std::vector<double> to_doubles(const HostTensor& tensor) {
  std::vector<double> values;
  append_doubles(tensor.dtype, tensor.data, values);
  return values;
}

void append_doubles(DType dtype, std::span<const std::byte> elements, std::vector<double>& values) {
  const std::size_t known = values.size();
  values.resize(known + elements.size() / size_of(dtype));
  load_elements(dtype, elements.data(), std::span(values).subspan(known));
}

}  // namespace moxie
