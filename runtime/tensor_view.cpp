#include "runtime/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/host_tensor.h"

namespace moxie {
namespace {

bool is_empty(const TensorView& view) { return std::ranges::find(view.shape, 0) != view.shape.end(); }

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

std::vector<std::int64_t> strides_of(const TensorView& view) {
  return view.strides.empty() ? row_major_strides(view.shape) : view.strides;
}

/// Of the elements, in elements from `data`.
struct Offsets {
  std::int64_t first = 0, last = 0;
};

/// Throws ShapeError where an offset has more than 63 bits.
Offsets offsets_of(const TensorView& view) {
  Offsets offsets;
  const std::vector<std::int64_t> strides = strides_of(view);
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    std::int64_t reach = 0;
    std::int64_t& end = strides[axis] < 0 ? offsets.first : offsets.last;
    if (__builtin_mul_overflow(strides[axis], view.shape[axis] - 1, &reach) || __builtin_add_overflow(end, reach, &end))
      throw ShapeError(fmt::format("strides [{}] of shape [{}] reach beyond 63 bits", fmt::join(strides, ","),
                                   fmt::join(view.shape, ",")));
  }
  return offsets;
}

/// Calls visit(address, count, stride) for each row of the last axis, in row-major order.
template <class Visit>
void visit_rows(const TensorView& view, const Visit& visit) {
  if (is_empty(view)) return;
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
  const std::vector<std::int64_t> strides = strides_of(view);
  const std::size_t outer = view.shape.empty() ? 0 : view.shape.size() - 1;
  const std::int64_t count = view.shape.empty() ? 1 : view.shape.back();
  const std::int64_t stride = view.shape.empty() ? 1 : strides.back();
  std::vector<std::int64_t> index(outer, 0);
  auto* row = static_cast<std::byte*>(view.data);
  for (bool more = true; more;) {
    visit(row, count, stride * bytes);
    more = false;
    for (std::size_t axis = outer; axis-- > 0;) {
      row += strides[axis] * bytes;
      more = ++index[axis] < view.shape[axis];
      if (more) break;
      row -= strides[axis] * bytes * view.shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

void check_view(const TensorView& view) {
  if (std::ranges::any_of(view.shape, [](std::int64_t extent) { return extent < 0; }))
    throw ShapeError(fmt::format("a view has the shape [{}]; extents are 0 or more", fmt::join(view.shape, ",")));
  std::int64_t bytes = static_cast<std::int64_t>(size_of(view.dtype));
  for (const std::int64_t extent : view.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      throw ShapeError(
          fmt::format("a view of shape [{}] has more bytes than 63 bits count", fmt::join(view.shape, ",")));
  }
  if (!view.strides.empty() && view.strides.size() != view.shape.size())
    throw ShapeError(fmt::format("a view of shape [{}] has the strides [{}]; give one for each axis, or none",
                                 fmt::join(view.shape, ","), fmt::join(view.strides, ",")));
  if (is_empty(view)) return;
  if (view.data == nullptr)
    throw UsageError(fmt::format("a view of shape [{}] has a null pointer; give the address of its first element",
                                 fmt::join(view.shape, ",")));
  offsets_of(view);
}

void check_view_in(const TensorView& view, std::size_t count) {
  check_view(view);
  const Offsets offsets = is_empty(view) ? Offsets{0, -1} : offsets_of(view);
  const auto held = static_cast<std::int64_t>(count);
  const bool fits = offsets.first >= 0 && offsets.last < held && (!view.strides.empty() || offsets.last + 1 == held);
  if (fits) return;
  const std::string strides =
      view.strides.empty() ? "" : fmt::format(" and strides [{}]", fmt::join(view.strides, ","));
  throw ShapeError(fmt::format("{} elements do not hold a view of shape [{}]{}: its elements are {} to {}", count,
                               fmt::join(view.shape, ","), strides, offsets.first, offsets.last));
}

bool is_row_major(const TensorView& view) {
  if (view.strides.empty() || is_empty(view)) return true;
  const std::vector<std::int64_t> wanted = row_major_strides(view.shape);
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    if (view.shape[axis] > 1 && view.strides[axis] != wanted[axis]) return false;
  }
  return true;
}

bool is_aligned(const TensorView& view, std::size_t bytes) {
  return is_empty(view) || reinterpret_cast<std::uintptr_t>(view.data) % bytes == 0;
}

std::size_t bytes_of(const TensorView& view) {
  return static_cast<std::size_t>(element_count(view.shape)) * size_of(view.dtype);
}

/// Sufficient for all usual layouts: each axis steps over all that the axes with smaller strides reach.
bool overlaps_itself(const TensorView& view) {
  if (is_empty(view)) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride and extent
  const std::vector<std::int64_t> strides = strides_of(view);
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    if (view.shape[axis] > 1) axes.emplace_back(strides[axis] < 0 ? -strides[axis] : strides[axis], view.shape[axis]);
  }
  std::ranges::sort(axes);
  std::int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return true;
    reach += stride * (extent - 1);
  }
  return false;
}

bool share_memory(const TensorView& a, const TensorView& b) {
  if (a.device != b.device || is_empty(a) || is_empty(b)) return false;
  const auto range = [](const TensorView& view) {
    const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
    const Offsets offsets = offsets_of(view);
    const auto start = reinterpret_cast<std::intptr_t>(view.data);
    return std::pair(start + offsets.first * bytes, start + (offsets.last + 1) * bytes);
  };
  const auto [a_begin, a_end] = range(a);
  const auto [b_begin, b_end] = range(b);
  return a_begin < b_end && b_begin < a_end;
}

void pack_elements(const TensorView& view, std::span<std::byte> packed) {
  if (packed.empty()) return;
  if (is_row_major(view)) {
    std::memcpy(packed.data(), view.data, packed.size());
    return;
  }
  const std::size_t bytes = size_of(view.dtype);
  std::byte* to = packed.data();
  visit_rows(view, [&](const std::byte* from, std::int64_t count, std::int64_t stride) {
    for (std::int64_t k = 0; k < count; ++k, to += bytes) std::memcpy(to, from + k * stride, bytes);
  });
}

void unpack_elements(std::span<const std::byte> packed, const TensorView& view) {
  if (packed.empty()) return;
  if (is_row_major(view)) {
    std::memcpy(view.data, packed.data(), packed.size());
    return;
  }
  const std::size_t bytes = size_of(view.dtype);
  const std::byte* from = packed.data();
  visit_rows(view, [&](std::byte* to, std::int64_t count, std::int64_t stride) {
    for (std::int64_t k = 0; k < count; ++k, from += bytes) std::memcpy(to + k * stride, from, bytes);
  });
}

}  // namespace moxie
