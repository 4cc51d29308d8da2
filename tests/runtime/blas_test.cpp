#include "runtime/cpu/matrix_products.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/cpu/blas.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/product_tiles.h"

using namespace moxie;

namespace {

struct Extents {
  std::int64_t rows, columns, depth;
};

/// Small, tall, flat, deep, square, with and without a remainder of a vector.
const std::vector<Extents> kShapes = {{1, 1, 1},       {3, 0, 5},      {0, 4, 5},      {4, 3, 0},     {64, 50, 784},
                                      {50, 784, 64},   {257, 259, 61}, {512, 512, 64}, {5001, 20, 9}, {20, 5001, 77},
                                      {16, 18, 20000}, {40001, 3, 11}, {700, 90, 400}};

template <class T>
std::vector<T> values(std::int64_t count, double seed) {
  std::vector<T> result;
  for (std::int64_t k = 0; k < count; ++k)
    result.push_back(static_cast<T>(std::sin(seed + 0.7 * static_cast<double>(k))));
  return result;
}

/// Elements from a tensor's first to behind the last that the products use.
std::int64_t reach(const ProductMatrix& matrix, std::int64_t rows, std::int64_t columns, const ProductCall& call,
                   std::int64_t ProductBatch::* stride) {
  if (rows == 0 || columns == 0 || batch_count(call) == 0) return 0;
  std::int64_t last = matrix.first + (rows - 1) * matrix.row_stride + (columns - 1) * matrix.column_stride;
  for (const ProductBatch& loop : call.batch) last += (loop.count - 1) * (loop.*stride);
  return last + 1;
}

template <class T>
std::vector<T> left_of(const ProductCall& call) {
  return values<T>(reach(call.left, call.rows, call.depth, call, &ProductBatch::left), 1);
}

template <class T>
std::vector<T> right_of(const ProductCall& call) {
  return values<T>(reach(call.right, call.depth, call.columns, call, &ProductBatch::right), 2);
}

template <class T>
std::vector<T> product(ThreadPool& pool, DType dtype, const ProductCall& call) {
  const auto left = left_of<T>(call);
  const auto right = right_of<T>(call);
  const std::int64_t elements = reach(call.out, call.rows, call.columns, call, &ProductBatch::out);
  std::vector<T> out(static_cast<std::size_t>(elements), T(-7));
  gemm(pool, dtype, call, 0.5, left.data(), right.data(), out.data());
  return out;
}

template <class T>
double at(const std::vector<T>& tensor, const ProductMatrix& matrix, std::int64_t first, std::int64_t row,
          std::int64_t column) {
  const std::int64_t place = matrix.first + first + row * matrix.row_stride + column * matrix.column_stride;
  return static_cast<double>(tensor.at(static_cast<std::size_t>(place)));
}

template <class T>
bool is_right(const ProductCall& call, const std::vector<T>& out, double tolerance) {
  const auto left = left_of<T>(call);
  const auto right = right_of<T>(call);
  const std::int64_t elements = call.rows * call.columns;
  // A prime stride visits elements of all tiles.
  for (std::int64_t k = 0; k < elements * batch_count(call); k += 97) {
    const ProductOffset offset = offset_of(call, k / elements);
    const std::int64_t i = k % elements / call.columns, j = k % call.columns;
    double sum = 0;
    const Stretch depth = call.band ? part_of_row(*call.band, i) : Stretch{0, call.depth};
    for (std::int64_t d = depth.first; d < depth.end; ++d)
      sum += at(left, call.left, offset.left, i, d) * at(right, call.right, offset.right, d, j);
    if (std::abs(at(out, call.out, offset.out, i, j) - 0.5 * sum) > tolerance) return false;
  }
  return true;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// The same product for each element of a batch of [3, 5]: the left matrix depends on the first axis of it, which lies
/// between its rows and columns; the right one on both; results lie apart.
ProductCall batched(const Extents& extents) {
  const auto [m, n, k] = extents;
  ProductCall call{m, n, k, {2, 3 * k, 1}, {0, 1, k}, {1, n + 4, 1}};
  call.batch = {{3, k, 5 * n * k, 5 * m * (n + 4)}, {5, 0, n * k, m * (n + 4)}};
  return call;
}

template <class T>
void check_product(DType dtype, const ProductCall& call, double tolerance) {
  ThreadPool one(1), two(2), three(3);
  const auto expected = product<T>(one, dtype, call);
  CHECK(is_right(call, expected, tolerance));
  CHECK(same_bits(product<T>(two, dtype, call), expected));
  CHECK(same_bits(product<T>(three, dtype, call), expected));
}

template <class T>
void check_products(DType dtype, double tolerance) {
  for (const Extents& extents : kShapes) {
    const auto& [rows, columns, depth] = extents;
    for (const int transposed : {0, 1, 2, 3}) {
      CAPTURE(fmt::format("{} x {} x {}, transposed {}", rows, columns, depth, transposed));
      check_product<T>(dtype, single_product(rows, columns, depth, (transposed & 1) != 0, (transposed & 2) != 0),
                       tolerance);
    }
    if (rows * columns * depth < 1000000) check_product<T>(dtype, batched(extents), tolerance);
  }
  check_product<T>(dtype, batched({26, 26, 72}), tolerance);
}

constexpr std::int64_t kFar = std::int64_t{1} << 60;

/// Triangles from either side, also without or with more than the diagonal, and bands, of these extents.
std::vector<RowBand> bands(const Extents& e) {
  return {{{0, e.depth}, {-kFar, 1}},    {{0, e.depth}, {-kFar, 0}}, {{0, e.depth}, {-kFar, 40}},
          {{0, e.depth}, {0, kFar}},     {{0, e.depth}, {1, kFar}},  {{0, e.depth}, {-30, 31}},
          {{0, e.depth}, {-200, 1}},     {{7, e.depth}, {-3, 4}},    {{5, e.depth - 9}, {-kFar, 25}},
          {{0, e.depth}, {-2000, -1000}}};
}

template <class T>
void check_bands(DType dtype, double tolerance) {
  for (const Extents& extents :
       std::vector<Extents>{{1, 5, 1}, {16, 3, 16}, {65, 20, 65}, {300, 70, 300}, {37, 9, 90}}) {
    for (const RowBand& band : bands(extents)) {
      if (band.fixed.end > extents.depth || band.fixed.first > extents.depth) continue;
      const auto& [rows, columns, depth] = extents;
      CAPTURE(fmt::format("{} x {} x {}, {}..{} and {}..{}", rows, columns, depth, band.fixed.first, band.fixed.end,
                          band.moving.first, band.moving.end));
      for (const int transposed : {0, 1, 2, 3}) {
        ProductCall call = single_product(rows, columns, depth, (transposed & 1) != 0, (transposed & 2) != 0);
        call.band = band;
        check_product<T>(dtype, call, tolerance);
      }
      ProductCall call = batched(extents);
      call.band = band;
      check_product<T>(dtype, call, tolerance);
    }
  }
}

bool covers_once(const std::vector<ProductTile>& tiles, const Extents& extents) {
  std::vector<int> hits(static_cast<std::size_t>(extents.rows * extents.columns));
  for (const ProductTile& tile : tiles) {
    for (std::int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
      for (std::int64_t j = tile.column; j < tile.column + tile.columns; ++j)
        ++hits.at(static_cast<std::size_t>(i * extents.columns + j));
    }
  }
  return std::ranges::all_of(hits, [](int hit) { return hit == 1; });
}

}  // namespace

TEST_CASE("matrix products have the same bits on one, two and three threads") {
  check_products<float>(DType::f32, 2e-3);
  check_products<double>(DType::f64, 1e-10);
}

TEST_CASE("products of a band have the same bits on one, two and three threads") {
  check_bands<float>(DType::f32, 2e-4);
  check_bands<double>(DType::f64, 1e-11);
}

TEST_CASE("products of a band look at nothing outside of it, and keep what is not finite to its rows") {
  constexpr std::int64_t kRows = 100, kColumns = 33;
  ProductCall call = single_product(kRows, kColumns, kRows);
  call.band = RowBand{{0, kRows}, {-kFar, 1}};
  std::vector<float> left(kRows * kRows, 1), right(kRows * kColumns, 1), out(kRows * kColumns);
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t k = row + 1; k < kRows; ++k) left[static_cast<std::size_t>(row * kRows + k)] = NAN;
  right[50 * kColumns + 7] = INFINITY;
  ThreadPool pool(2);
  gemm(pool, DType::f32, call, 1, left.data(), right.data(), out.data());
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kColumns; ++column) {
      const float expected = row >= 50 && column == 7 ? INFINITY : static_cast<float>(row + 1);
      REQUIRE(out[static_cast<std::size_t>(row * kColumns + column)] == expected);
    }
  }
}

TEST_CASE("of the needed columns of a product each row has all, and blocks that nobody needs stay as they were") {
  constexpr std::int64_t kRows = 700, kColumns = 900, kDepth = 20;
  ProductCall call = single_product(kRows, kColumns, kDepth);
  call.needed = RowBand{{0, kColumns}, {-200, 41}};
  std::vector<float> left(kRows * kDepth, 1), right(kDepth * kColumns, 2), out(kRows * kColumns, -1);
  ThreadPool pool(2);
  gemm(pool, DType::f32, call, 1, left.data(), right.data(), out.data());
  std::int64_t untouched = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const Stretch needed = part_of_row(*call.needed, row);
    for (std::int64_t column = 0; column < kColumns; ++column) {
      const float value = out[static_cast<std::size_t>(row * kColumns + column)];
      if (column >= needed.first && column < needed.end) REQUIRE(value == 40);
      untouched += value == -1;
    }
  }
  CHECK(untouched > kRows * kColumns / 2);
}

TEST_CASE("OpenBLAS computes with the vectors of this processor, though it may not know its model") {
  if (std::getenv("OPENBLAS_CORETYPE")) return;  // somebody has chosen
  if (host_supports("x86-64-v3")) CHECK_NE(blas_kernels(), "Prescott");
}

TEST_CASE("oneDNN multiplies what lies well for it: rows along the depth, whatever their strides") {
  if (!onednn::prepare()) return;
  CHECK(onednn::suits(cblas::kNoTranspose, 1024, cblas::kTranspose, 1024));
  CHECK(onednn::suits(cblas::kTranspose, 1000, cblas::kNoTranspose, 1000));
  // Columns of which all elements share a few sets of the cache, on either side.
  CHECK(onednn::suits(cblas::kTranspose, 1024, cblas::kNoTranspose, 1000) ==
        onednn::suits(cblas::kTranspose, 1000, cblas::kNoTranspose, 1024));
}

TEST_CASE("the tiles of a product cover its result once, and are many only where packing is cheap") {
  for (const Extents& extents : kShapes) {
    CAPTURE(fmt::format("{} x {} x {}", extents.rows, extents.columns, extents.depth));
    CHECK(covers_once(product_tiles(extents.rows, extents.columns, extents.depth), extents));
  }
  CHECK(product_tiles(64, 50, 784).size() == 1);
  CHECK(product_tiles(256, 256, 4).size() == 1);  // too little work
  CHECK(product_tiles(512, 512, 512) ==
        std::vector<ProductTile>{{0, 0, 256, 256}, {0, 256, 256, 256}, {256, 0, 256, 256}, {256, 256, 256, 256}});
  CHECK(product_tiles(2048, 2048, 2048).size() == 16);
  CHECK(product_tiles(60000, 50, 784).size() == 32);
  CHECK(product_tiles(60000, 50, 784, 8).size() == 4);  // of each of a batch
  CHECK(product_grain(26, 26, 72, 500) == 16);
  CHECK(product_grain(512, 512, 64, 8) == 1);
}
