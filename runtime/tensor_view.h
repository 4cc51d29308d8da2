#pragma once
// TensorView: a tensor in memory that belongs to the caller.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "compiler/expression/dtype.h"
#include "runtime/elements.h"

namespace moxie {

/// A value that describes memory and owns none of it, unless `owner` is given. Copies describe the same memory.
///
/// Lifetime: whoever is given a view reads and writes the memory until it is given another one. Session::bind() says
/// when that ends. With an `owner`, the memory may be forgotten by the caller at once.
struct TensorView {
  void* data = nullptr;  // of the element at index 0 on every axis; may be null where there are no elements
  std::vector<std::int64_t> shape = {};
  /// In elements, one for each axis: 0 repeats elements and negative ones go backwards. Empty: row-major, no padding.
  std::vector<std::int64_t> strides = {};
  DType dtype = DType::f32;
  /// Where the memory is: "cpu" for memory of the host, page-locked or not, whichever device runs; "cuda" or "cuda:1"
  /// for memory of that GPU, of its primary context, as cudaMalloc gives it.
  std::string device = "cpu";
  bool read_only = false;                       // then it is an input, never an output
  std::shared_ptr<const void> owner = nullptr;  // keeps the memory alive as long as a copy of the view exists
};

/// A type that elements of some dtype have; it may be const.
template <class T>
concept TensorElement = place_of_element<std::remove_const_t<T>>() < std::tuple_size_v<ElementTypes>;

/// The dtype of tensors whose elements are of this type of C++.
template <TensorElement T>
constexpr DType dtype_of_element() {
  return static_cast<DType>(place_of_element<std::remove_const_t<T>>());
}

/// The elements of a range, const if they cannot be written.
template <class Range>
using RangeElement = std::remove_reference_t<std::ranges::range_reference_t<Range>>;

/// Memory of the host as a tensor: a std::span, or a vector or array that the caller keeps. Read-only for const
/// elements. The first element is that at index 0 on every axis, so that no stride is negative. Throws ShapeError
/// unless all elements of the shape lie in the range; without strides they must fill it.
template <std::ranges::contiguous_range Range>
  requires std::ranges::borrowed_range<Range> && TensorElement<RangeElement<Range>>
TensorView view_of(Range&& elements, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {});

/// Throws ShapeError for a negative extent, more elements than 63 bits count, or another number of strides than of
/// axes, and UsageError for a null pointer to elements.
void check_view(const TensorView& view);
/// The same, and that `count` elements from `data` on hold all of its elements.
void check_view_in(const TensorView& view, std::size_t count);
/// Whether its memory is the host's.
inline bool is_on_host(const TensorView& view) { return view.device == "cpu"; }
/// Whether the elements lie row by row without padding.
bool is_row_major(const TensorView& view);
/// Whether the address is a multiple of this number of bytes; also where there are no elements.
bool is_aligned(const TensorView& view, std::size_t bytes);
/// The bytes of its elements if they lie row by row.
std::size_t bytes_of(const TensorView& view);
/// Whether two of its elements may share memory: then it cannot be an output.
bool overlaps_itself(const TensorView& view);
/// Whether the memory from the first to the last element of one meets that of the other.
bool share_memory(const TensorView& a, const TensorView& b);
/// Elements of the host's memory in row-major order, and back. `packed` need not be aligned.
void pack_elements(const TensorView& view, std::span<std::byte> packed);
void unpack_elements(std::span<const std::byte> packed, const TensorView& view);

template <std::ranges::contiguous_range Range>
  requires std::ranges::borrowed_range<Range> && TensorElement<RangeElement<Range>>
TensorView view_of(Range&& elements, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  using T = RangeElement<Range>;
  TensorView view{.data = const_cast<std::remove_const_t<T>*>(std::ranges::data(elements)),  // read_only says the rest
                  .shape = std::move(shape),
                  .strides = std::move(strides),
                  .dtype = dtype_of_element<T>(),
                  .read_only = std::is_const_v<T>};
  check_view_in(view, std::ranges::size(elements));
  return view;
}

}  // namespace moxie
