#pragma once
// HostTensor: a dense tensor in the memory of the host, row-major.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

struct HostTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;  // element_count(shape) * size_of(dtype) bytes
  bool operator==(const HostTensor&) const = default;
};

std::size_t size_of(DType dtype);
/// Throws DataError for a negative extent or a product beyond 63 bits.
std::int64_t element_count(std::span<const std::int64_t> shape);
/// Throws DataError unless `values` fill the shape and, as i32, are integers of that range.
HostTensor make_host_tensor(DType dtype, std::vector<std::int64_t> shape, std::span<const double> values);
std::vector<double> to_doubles(const HostTensor& tensor);
/// Appends elements of this type, as they lie in memory.
void append_doubles(DType dtype, std::span<const std::byte> elements, std::vector<double>& values);

}  // namespace moxie
