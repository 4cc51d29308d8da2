#pragma once
// Where the slices of tensors lie in memory.
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan.h"

namespace moxie {

/// The part of a whole tensor that belongs to a slice.
struct SlicePart {
  std::string tensor;
  std::vector<std::pair<std::string, std::int64_t>> strides;  // bytes for each of what these dims count

  /// From the first byte of the tensor, for the slice whose dims these are.
  std::int64_t offset(const DimValues& dims) const;
};

/// By the names that the steps of slices have for them, of all steps of a plan.
struct SliceParts {
  std::map<std::string, SlicePart> views;  // which steps read and write in place
  std::map<std::string, SlicePart> sums;   // to which a tensor of the slice is added when it has run
};
SliceParts slice_parts(const Plan& plan, const DimValues& dims);

/// whole[k] += part[k] for that many elements, or, of the first slice, whole[k] = part[k].
void add_slice(DType dtype, const std::byte* part, std::int64_t count, bool is_first, std::byte* whole);

}  // namespace moxie
