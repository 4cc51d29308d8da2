#include "runtime/host_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "compiler/support/error.h"
#include "compiler/support/nan.h"

namespace moxie {
namespace {

template <class Element>
std::vector<std::byte> stored_as(std::span<const double> values) {
  const std::vector<Element> elements(values.begin(), values.end());
  const auto bytes = std::as_bytes(std::span(elements));
  return {bytes.begin(), bytes.end()};
}

template <class Element>
void append_as(std::span<const std::byte> bytes, std::vector<double>& values) {
  for (std::size_t at = 0; at + sizeof(Element) <= bytes.size(); at += sizeof(Element)) {
    Element element;
    std::memcpy(&element, bytes.data() + at, sizeof(Element));
    values.push_back(static_cast<double>(element));
  }
}

void check_integers(std::span<const double> values) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (as_integer(values[k]) == values[k]) continue;
    throw DataError(
        fmt::format("element {} is {}, but an i32 tensor holds integers from -2147483648 to 2147483647; "
                    "round the values, or declare another dtype",
                    k, without_nan_sign(values[k])));
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
  switch (dtype) {
    case DType::f32:
      return {dtype, std::move(shape), stored_as<float>(values)};
    case DType::f64:
      return {dtype, std::move(shape), stored_as<double>(values)};
    case DType::i32:
      check_integers(values);
      return {dtype, std::move(shape), stored_as<std::int32_t>(values)};
  }
  throw InternalError("unknown dtype");
}

std::vector<double> to_doubles(const HostTensor& tensor) {
  std::vector<double> values;
  values.reserve(tensor.data.size() / size_of(tensor.dtype));
  append_doubles(tensor.dtype, tensor.data, values);
  return values;
}

void append_doubles(DType dtype, std::span<const std::byte> elements, std::vector<double>& values) {
  if (dtype == DType::f32)
    append_as<float>(elements, values);
  else if (dtype == DType::i32)
    append_as<std::int32_t>(elements, values);
  else
    append_as<double>(elements, values);
}

}  // namespace moxie
