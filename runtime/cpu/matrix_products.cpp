#include "runtime/cpu/matrix_products.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "runtime/cpu/blas.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/product_tiles.h"

namespace moxie {
namespace {

/// Multiply-adds from which oneDNN computes a tile. Below, what a call of it costs shows: of 431 products with extents
/// of 1 to 1000, in all transpositions, those with 10^6 multiply-adds and more take 0.74 times what they take with
/// OpenBLAS (geometric mean), those with 10^5 to 10^6 0.97 times, and smaller ones up to 9 times (AVX-512, oneDNN
/// 2.6.3, OpenBLAS 0.3.21).
constexpr double kLargeTile = 1e6;

bool is_large(const ProductTile& tile, std::int64_t depth) {
  return static_cast<double>(tile.rows) * static_cast<double>(tile.columns) * static_cast<double>(depth) >= kLargeTile;
}

std::vector<ProductTile> tiles_of(const ProductCall& call) {
  return product_tiles(call.rows, call.columns, call.depth, batch_count(call));
}

template <class T>
struct Matrix {
  const T* first;  // of the tile
  int transposition, stride;
};

/// The part of an operand that a tile needs, from this row and column on.
template <class T>
Matrix<T> matrix_at(const void* tensor, const ProductMatrix& matrix, std::int64_t offset, std::int64_t row,
                    std::int64_t column, std::int64_t stride) {
  const std::int64_t first = matrix.first + offset + row * matrix.row_stride + column * matrix.column_stride;
  return {static_cast<const T*>(tensor) + first, is_transposed(matrix) ? cblas::kTranspose : cblas::kNoTranspose,
          to_blas_int(stride)};
}

/// One tile of one product of the batch, by the calling thread.
template <class T>
void multiply(const ProductCall& call, const ProductOffset& offset, const ProductTile& tile, double alpha,
              const void* left, const void* right, void* out) {
  const auto a =
      matrix_at<T>(left, call.left, offset.left, tile.row, 0, leading_dimension(call.left, call.rows, call.depth));
  const auto b = matrix_at<T>(right, call.right, offset.right, 0, tile.column,
                              leading_dimension(call.right, call.depth, call.columns));
  T* c = static_cast<T*>(out) + call.out.first + offset.out + tile.row * call.out.row_stride + tile.column;
  const int rows = to_blas_int(tile.rows), columns = to_blas_int(tile.columns), depth = to_blas_int(call.depth);
  const int stride = to_blas_int(leading_dimension(call.out, call.rows, call.columns));
  const T factor = static_cast<T>(alpha);
  if constexpr (std::is_same_v<T, float>) {
    if (is_large(tile, call.depth) && onednn::prepare())
      return onednn::gemm(a.transposition, b.transposition, rows, columns, depth, factor, a.first, a.stride, b.first,
                          b.stride, c, stride);
  }
  blas_calls<T>().gemm(cblas::kRowMajor, a.transposition, b.transposition, rows, columns, depth, factor, a.first,
                       a.stride, b.first, b.stride, T(0), c, stride);
}

}  // namespace

void prepare_product(DType dtype, const ProductCall& call) {
  prepare_blas();
  if (dtype != DType::f32) return;
  for (const ProductTile& tile : tiles_of(call)) {
    if (is_large(tile, call.depth) && onednn::prepare()) return;
  }
}

void gemm(ThreadPool& pool, DType dtype, const ProductCall& call, double alpha, const void* left, const void* right,
          void* out) {
  const OneThreadEach borrowed;
  const std::vector<ProductTile> tiles = tiles_of(call);
  const auto per_product = static_cast<std::int64_t>(tiles.size());
  const std::int64_t total = batch_count(call) * per_product;
  const std::int64_t grain = product_grain(call.rows, call.columns, call.depth, total);
  pool.run((total + grain - 1) / grain, [&](std::int64_t piece, int) {
    for (std::int64_t k = piece * grain; k < std::min((piece + 1) * grain, total); ++k) {
      const ProductOffset offset = offset_of(call, k / per_product);
      const ProductTile& tile = tiles[static_cast<std::size_t>(k % per_product)];
      if (dtype == DType::f32)
        multiply<float>(call, offset, tile, alpha, left, right, out);
      else
        multiply<double>(call, offset, tile, alpha, left, right, out);
    }
  });
}

}  // namespace moxie
