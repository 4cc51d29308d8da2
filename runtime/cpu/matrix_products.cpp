#include "runtime/cpu/matrix_products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/cpu/blas.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/product_tiles.h"
#include "runtime/elements.h"

namespace moxie {
namespace {

/// Multiply-adds from which oneDNN computes a tile. Below, what a call of it costs shows: of 431 products with extents
/// of 1 to 1000, in all transpositions, those with 10^6 multiply-adds and more take 0.75 times what they take with
/// OpenBLAS (geometric mean), those with 10^5 to 10^6 0.97 times, and smaller ones up to 9 times (AVX-512, oneDNN
/// 2.6.3, OpenBLAS 0.3.21).
constexpr double kLargeTile = 1e6;

/// Rows at the corners of a band, whose parts of the depth are copied between zeros.
constexpr std::int64_t kCorner = 16;
/// The columns of such a copy, at most: one end moves over kCorner elements, and so does the other, around a middle
/// that is too narrow for a block of its own.
constexpr std::int64_t kCornerDepth = 3 * kCorner;

/// Rows of which the needed columns are computed together: a BLAS packs the right operand again for each such block.
constexpr std::int64_t kNeededRows = 128;

bool is_large(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth) >= kLargeTile;
}

std::vector<ProductTile> tiles_of(const ProductCall& call) {
  return product_tiles(call.rows, call.columns, call.depth, batch_count(call));
}

template <class T>
struct Matrix {
  const T* first;
  int transposition, stride;
};

/// One product of a batch.
template <class T>
class SingleProduct {
 public:
  SingleProduct(const ProductCall& call, const ProductOffset& offset, double alpha, const void* left, const void* right,
                void* out, bool adds)
      : call_(call),
        adds_(adds),
        alpha_(static_cast<T>(alpha)),
        left_(static_cast<const T*>(left) + call.left.first + offset.left),
        right_(static_cast<const T*>(right) + call.right.first + offset.right),
        out_(static_cast<T*>(out) + call.out.first + offset.out) {}

  void compute(const ProductTile& tile) const {
    if (!call_.needed) return compute_all(tile);
    for (std::int64_t row = 0; row < tile.rows; row += kNeededRows)
      compute_needed({tile.row + row, tile.column, std::min(kNeededRows, tile.rows - row), tile.columns});
  }

 private:
  /// The columns from the first to the last that a row of the tile needs.
  void compute_needed(const ProductTile& tile) const {
    const Stretch top = part_of_row(*call_.needed, tile.row);
    const Stretch bottom = part_of_row(*call_.needed, tile.row + tile.rows - 1);
    const std::int64_t first = std::max(std::min(top.first, bottom.first), tile.column);
    const std::int64_t end = std::min(std::max(top.end, bottom.end), tile.column + tile.columns);
    if (first < end) compute_all({tile.row, first, tile.rows, end - first});
  }

  void compute_all(const ProductTile& tile) const {
    if (!call_.band || (call_.masked && !is_finite_outside(tile)))
      return add_block(tile, {0, call_.depth}, adds_ ? T(1) : T(0));
    for (std::int64_t row = tile.row; row < tile.row + tile.rows && !adds_; ++row)
      std::fill_n(out_at(row, tile.column), tile.columns, T(0));
    add_band(tile, {0, call_.depth});
  }

  const T* left_at(std::int64_t row, std::int64_t k) const {
    return left_ + row * call_.left.row_stride + k * call_.left.column_stride;
  }
  const T* right_at(std::int64_t k, std::int64_t column) const {
    return right_ + k * call_.right.row_stride + column * call_.right.column_stride;
  }
  T* out_at(std::int64_t row, std::int64_t column) const { return out_ + row * call_.out.row_stride + column; }

  /// The part of the depth that a row sums, inside of this one.
  Stretch depth_inside(std::int64_t row, const Stretch& part) const {
    const Stretch own = part_of_row(*call_.band, row);
    const std::int64_t first = std::clamp(own.first, part.first, part.end);
    return {first, std::clamp(own.end, first, part.end)};
  }

  /// Adds what the rows of the tile sum in this part of the depth. Blocks in which all rows have all of it come first;
  /// then the rows are halved.
  void add_band(const ProductTile& tile, const Stretch& part) const {
    const Stretch top = depth_inside(tile.row, part);
    const Stretch bottom = depth_inside(tile.row + tile.rows - 1, part);
    const Stretch any{std::min(top.first, bottom.first), std::max(top.end, bottom.end)};
    const Stretch all{std::max(top.first, bottom.first), std::min(top.end, bottom.end)};
    if (any.first >= any.end) return;
    if (all.end - all.first >= kCorner || all == any) {
      add_block(tile, all, T(1));
      add_band(tile, {any.first, all.first});
      add_band(tile, {all.end, any.end});
    } else if (tile.rows <= kCorner && any.end - any.first <= kCornerDepth) {
      add_corner(tile, any);
    } else {
      const std::int64_t half = tile.rows / 2;
      add_band({tile.row, tile.column, half, tile.columns}, any);
      add_band({tile.row + half, tile.column, tile.rows - half, tile.columns}, any);
    }
  }

  /// As a block whose left operand is a copy with zeros outside of the band; one by one where the right operand has
  /// elements that times zero are not zero.
  void add_corner(const ProductTile& tile, const Stretch& part) const {
    if (!right_is_finite(tile, part)) return add_elements(tile, part);
    std::array<T, kCorner * kCornerDepth> copy = {};
    const std::int64_t width = part.end - part.first;
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      const Stretch own = depth_inside(tile.row + row, part);
      for (std::int64_t k = own.first; k < own.end; ++k)
        copy[static_cast<std::size_t>(row * width + k - part.first)] = *left_at(tile.row + row, k);
    }
    multiply({copy.data(), cblas::kNoTranspose, to_blas_int(width)}, tile, part, T(1));
  }

  /// Whether the right operand is finite where some row of the tile leaves it out.
  bool is_finite_outside(const ProductTile& tile) const {
    const Stretch top = part_of_row(*call_.band, tile.row);
    const Stretch bottom = part_of_row(*call_.band, tile.row + tile.rows - 1);
    const std::int64_t first = std::clamp(std::max(top.first, bottom.first), std::int64_t{0}, call_.depth);
    const std::int64_t end = std::clamp(std::min(top.end, bottom.end), first, call_.depth);
    return right_is_finite(tile, {0, first}) && right_is_finite(tile, {end, call_.depth});
  }

  /// Sums of magnitudes are finite if all elements are, but for those that overflow, which are as rare. Lines that lie
  /// one behind the other are one.
  bool right_is_finite(const ProductTile& tile, const Stretch& part) const {
    const bool by_rows = !is_transposed(call_.right);
    std::int64_t lines = by_rows ? part.end - part.first : tile.columns;
    std::int64_t length = by_rows ? tile.columns : part.end - part.first;
    const std::int64_t stride = by_rows ? call_.right.row_stride : call_.right.column_stride;
    if (lines > 0 && stride == length) length *= std::exchange(lines, 1);
    for (std::int64_t line = 0; line < lines; ++line) {
      const T* first = right_at(part.first, tile.column) + line * stride;
      if (!std::isfinite(blas_calls<T>().asum(to_blas_int(length), first, 1))) return false;
    }
    return true;
  }

  void add_elements(const ProductTile& tile, const Stretch& part) const {
    for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      const Stretch own = depth_inside(row, part);
      for (std::int64_t k = own.first; k < own.end; ++k) {
        const T factor = alpha_ * *left_at(row, k);
        for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column)
          *out_at(row, column) += factor * *right_at(k, column);
      }
    }
  }

  /// The operand may end where the tile and the part end: it needs no line for a row whose band is empty.
  void add_block(const ProductTile& tile, const Stretch& part, T beta) const {
    multiply({left_at(tile.row, part.first), is_transposed(call_.left) ? cblas::kTranspose : cblas::kNoTranspose,
              to_blas_int(leading_dimension(call_.left, tile.rows, part.end - part.first))},
             tile, part, beta);
  }

  /// out = alpha * left * right + beta * out for a tile, of this left operand.
  void multiply(const Matrix<T>& a, const ProductTile& tile, const Stretch& part, T beta) const {
    const std::int64_t extent = part.end - part.first;
    const int rows = to_blas_int(tile.rows), columns = to_blas_int(tile.columns), depth = to_blas_int(extent);
    const Matrix<T> b{right_at(part.first, tile.column),
                      is_transposed(call_.right) ? cblas::kTranspose : cblas::kNoTranspose,
                      to_blas_int(leading_dimension(call_.right, extent, tile.columns))};
    T* const c = out_at(tile.row, tile.column);
    const int stride = to_blas_int(leading_dimension(call_.out, tile.rows, tile.columns));
    if constexpr (std::is_same_v<T, float>) {
      if (is_large(tile.rows, tile.columns, extent) && onednn::prepare() &&
          onednn::suits(a.transposition, a.stride, b.transposition, b.stride))
        return onednn::gemm(a.transposition, b.transposition, rows, columns, depth, alpha_, a.first, a.stride, b.first,
                            b.stride, beta, c, stride);
    }
    blas_calls<T>().gemm(cblas::kRowMajor, a.transposition, b.transposition, rows, columns, depth, alpha_, a.first,
                         a.stride, b.first, b.stride, beta, c, stride);
  }

  const ProductCall& call_;
  bool adds_;
  T alpha_;
  const T *left_, *right_;
  T* out_;
};

}  // namespace

void prepare_product(DType dtype, const ProductCall& call) {
  prepare_blas();
  if (dtype != DType::f32) return;
  for (const ProductTile& tile : tiles_of(call)) {
    if (is_large(tile.rows, tile.columns, call.depth) && onednn::prepare()) return;
  }
}

void gemm(ThreadPool& pool, DType dtype, const ProductCall& call, double alpha, const void* left, const void* right,
          void* out, bool adds) {
  const OneThreadEach borrowed;
  const std::vector<ProductTile> tiles = tiles_of(call);
  const auto per_product = static_cast<std::int64_t>(tiles.size());
  const std::int64_t total = batch_count(call) * per_product;
  const std::int64_t grain = product_grain(call.rows, call.columns, call.depth, total);
  pool.run((total + grain - 1) / grain, [&](std::int64_t piece, int) {
    for (std::int64_t k = piece * grain; k < std::min((piece + 1) * grain, total); ++k) {
      const ProductOffset offset = offset_of(call, k / per_product);
      const ProductTile& tile = tiles[static_cast<std::size_t>(k % per_product)];
      visit_computed(dtype,
                     [&]<class T>(T) { SingleProduct<T>(call, offset, alpha, left, right, out, adds).compute(tile); });
    }
  });
}

}  // namespace moxie
