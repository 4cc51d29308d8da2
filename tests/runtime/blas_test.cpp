#include "runtime/cpu/blas.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

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

template <class T>
std::vector<T> product(ThreadPool& pool, DType dtype, const ProductCall& call) {
  const auto left = values<T>(call.rows * call.depth, 1);
  const auto right = values<T>(call.depth * call.columns, 2);
  std::vector<T> out(static_cast<std::size_t>(call.rows * call.columns), T(-7));
  gemm(pool, dtype, call, 0.5, left.data(), right.data(), out.data());
  return out;
}

template <class T>
double element(const ProductCall& call, const std::vector<T>& left, const std::vector<T>& right, std::int64_t i,
               std::int64_t j) {
  double sum = 0;
  for (std::int64_t k = 0; k < call.depth; ++k) {
    const auto a = static_cast<std::size_t>(call.left_transposed ? k * call.rows + i : i * call.depth + k);
    const auto b = static_cast<std::size_t>(call.right_transposed ? j * call.depth + k : k * call.columns + j);
    sum += static_cast<double>(left[a]) * static_cast<double>(right[b]);
  }
  return 0.5 * sum;
}

template <class T>
bool is_right(const ProductCall& call, const std::vector<T>& out, double tolerance) {
  const auto left = values<T>(call.rows * call.depth, 1);
  const auto right = values<T>(call.depth * call.columns, 2);
  // A prime stride visits elements of all tiles.
  for (std::int64_t at = 0; at < call.rows * call.columns; at += 97) {
    const double expected = element(call, left, right, at / call.columns, at % call.columns);
    if (std::abs(static_cast<double>(out[static_cast<std::size_t>(at)]) - expected) > tolerance) return false;
  }
  return true;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void check_products(DType dtype, double tolerance) {
  ThreadPool one(1), two(2), three(3);
  for (const auto& [rows, columns, depth] : kShapes) {
    for (const int transposed : {0, 1, 2, 3}) {
      CAPTURE(fmt::format("{} x {} x {}, transposed {}", rows, columns, depth, transposed));
      const ProductCall call{(transposed & 1) != 0, (transposed & 2) != 0, rows, columns, depth};
      const auto expected = product<T>(one, dtype, call);
      CHECK(is_right(call, expected, tolerance));
      CHECK(same_bits(product<T>(two, dtype, call), expected));
      CHECK(same_bits(product<T>(three, dtype, call), expected));
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
}
