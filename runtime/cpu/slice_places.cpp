#include "runtime/cpu/slice_places.h"

#include <algorithm>

#include "runtime/elements.h"
#include "runtime/host_tensor.h"
#include "runtime/product_call.h"

namespace moxie {
namespace {

SlicePart part_of(const Plan& plan, const SliceView& view, const DimValues& dims) {
  const std::vector<std::int64_t> strides = strides_of(plan, view.tensor, dims);
  const auto size = static_cast<std::int64_t>(size_of(plan.fused.program.dtype_of(view.tensor)));
  SlicePart part{view.tensor, {}};
  for (std::size_t k = 0; k < view.first.size(); ++k) part.strides.emplace_back(view.first[k], strides[k] * size);
  return part;
}

template <class T>
void add_elements(const T* part, std::int64_t count, T* whole) {
  for (std::int64_t k = 0; k < count; ++k) whole[k] += part[k];
}

}  // namespace

std::int64_t SlicePart::offset(const DimValues& dims) const {
  std::int64_t bytes = 0;
  for (const auto& [first, stride] : strides) bytes += dims.find(first)->second * stride;
  return bytes;
}

SliceParts slice_parts(const Plan& plan, const DimValues& dims) {
  SliceParts parts;
  for (const PlanStep& step : plan.steps) {
    const auto* slices = std::get_if<LoweredSlices>(&step);
    if (!slices) continue;
    for (const auto& [name, view] : slices->slices.views) parts.views.emplace(name, part_of(plan, view, dims));
    for (const auto& [name, view] : slices->slices.parts) parts.sums.emplace(name, part_of(plan, view, dims));
  }
  return parts;
}

void add_slice(DType dtype, const std::byte* part, std::int64_t count, bool is_first, std::byte* whole) {
  if (is_first)
    std::copy_n(part, static_cast<std::size_t>(count) * size_of(dtype), whole);
  else
    visit_computed(
        dtype, [&]<class T>(T) { add_elements(reinterpret_cast<const T*>(part), count, reinterpret_cast<T*>(whole)); });
}

}  // namespace moxie
