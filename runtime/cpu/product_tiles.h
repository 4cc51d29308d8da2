#pragma once
// How the CPU splits a matrix product into tiles: a function of the extents alone, so that results do not depend on the
// number of threads.
#include <cstdint>
#include <vector>

namespace moxie {

/// A rectangle of the result, which one call of the BLAS on one thread computes.
struct ProductTile {
  std::int64_t row = 0, column = 0;
  std::int64_t rows = 0, columns = 0;
  bool operator==(const ProductTile&) const = default;
};

/// Tiles that cover the result of a [rows,depth] x [depth,columns] product once, none empty. A BLAS packs both operands
/// again for every tile, so few tiles are made where that costs as much as the multiplications, and none of small
/// products. Of a batch of that many products, each is split into fewer.
std::vector<ProductTile> product_tiles(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                       std::int64_t batch = 1);
/// How many of `total` tiles of small products one thread takes at a time.
std::int64_t product_grain(std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t total);

}  // namespace moxie
