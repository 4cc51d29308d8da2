#include "runtime/cpu/product_tiles.h"

#include <algorithm>
#include <cmath>

namespace moxie {
namespace {

/// Enough for the cores of most machines.
constexpr std::int64_t kMaxTiles = 32;
/// Multiply-adds of a tile: tens of microseconds, several times what waking a thread costs.
constexpr double kMinWork = 1 << 20;
/// Elements packed again for each multiply-add, because of tiles. On one thread 1/256 costs about 4 % with AVX2 and 8 %
/// with AVX-512 (512^3, 1024^3, 2048^3; OpenBLAS 0.3.21), and nothing for tall and flat results.
constexpr double kMaxPacking = 1.0 / 256;
/// The extents of inner tiles are multiples of this: whole vectors, also of AVX-512.
constexpr std::int64_t kVector = 16;

/// How many tiles there are along each extent.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

/// The right operand is packed for each row of tiles, the left one for each column.
double packing(const Grid& grid, std::int64_t rows, std::int64_t columns) {
  return static_cast<double>(grid.rows - 1) / static_cast<double>(rows) +
         static_cast<double>(grid.columns - 1) / static_cast<double>(columns);
}

double work_of(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
}

Grid choose_grid(std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t max_tiles) {
  const double work = work_of(rows, columns, depth);
  Grid grid;
  while (true) {
    Grid next = grid;
    (rows / grid.rows >= columns / grid.columns ? next.rows : next.columns) *= 2;
    const std::int64_t tiles = next.rows * next.columns;
    if (tiles > max_tiles || work < kMinWork * static_cast<double>(tiles) || packing(next, rows, columns) > kMaxPacking)
      return grid;
    grid = next;
  }
}

std::int64_t tile_extent(std::int64_t extent, std::int64_t tiles) {
  if (tiles == 1) return extent;
  const std::int64_t equal = (extent + tiles - 1) / tiles;
  return (equal + kVector - 1) / kVector * kVector;
}

}  // namespace

std::vector<ProductTile> product_tiles(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                       std::int64_t batch) {
  std::vector<ProductTile> tiles;
  if (rows == 0 || columns == 0 || batch == 0) return tiles;
  const Grid grid = choose_grid(rows, columns, depth, kMaxTiles / batch);
  const std::int64_t height = tile_extent(rows, grid.rows);
  const std::int64_t width = tile_extent(columns, grid.columns);
  for (std::int64_t row = 0; row < rows; row += height) {
    for (std::int64_t column = 0; column < columns; column += width)
      tiles.push_back({row, column, std::min(height, rows - row), std::min(width, columns - column)});
  }
  return tiles;
}

std::int64_t product_grain(std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t total) {
  const double work = std::max(work_of(rows, columns, depth), 1.0);
  const std::int64_t fewest = (total + kMaxTiles - 1) / kMaxTiles;  // no more pieces than needed
  return std::max<std::int64_t>(1, std::min(fewest, static_cast<std::int64_t>(std::ceil(kMinWork / work))));
}

}  // namespace moxie
