#include "compiler/schedule/pieces.h"

#include <algorithm>

#include "compiler/fuse/scan_position.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::int64_t kMostTiles = 64;
/// Vectors of one row that a piece reads one after the other, where it walks along rows: a kilobyte.
constexpr std::int64_t kVectorsOfARow = 16;

}  // namespace

std::int64_t evaluate(const Affine& affine, const DimValues& dims) {
  return affine.evaluate([&](Symbol symbol) {
    const auto it = dims.find(symbol.name());
    if (it == dims.end())
      throw ShapeError("dim " + symbol.name() + " has no value: no input shows it; give it (--dim " + symbol.name() +
                       "=...)");
    return it->second;
  });
}

DimValues at_first_step(const LoweredKernel& kernel, DimValues dims) {
  for (const std::string& argument : kernel.program.arguments) {
    if (const auto of_scan = scan_argument(argument, {})) dims.try_emplace(argument, *of_scan);
  }
  return dims;
}

std::int64_t extent_of(const SplitLoop& loop, const DimValues& dims) {
  std::int64_t end = evaluate(loop.range.highs.front().value, dims) + 1;
  for (const Bound& bound : loop.range.highs)
    end = std::min(end, floor_div(evaluate(bound.value, dims), bound.divisor) + 1);
  return std::max<std::int64_t>(end, 0);
}

std::int64_t vector_extent_of(const SplitLoop& loop, const DimValues& dims, int lanes) {
  return ceil_div(extent_of(loop, dims), loop.over_lanes ? lanes : 1);
}

PieceCounts count_pieces(const LoweredKernel& kernel, const DimValues& dims, int lanes) {
  PieceCounts counts;
  const std::int64_t narrowest = kernel.threads && kernel.tiles && kernel.tiles->over_lanes ? kVectorsOfARow : 1;
  if (kernel.tiles)
    counts.tiles = std::clamp<std::int64_t>(vector_extent_of(*kernel.tiles, dims, lanes) / narrowest, 1, kMostTiles);
  if (kernel.chunks)
    counts.chunks = std::clamp<std::int64_t>(extent_of(*kernel.chunks, dims) / kernel.chunks->least_rows, 1,
                                             kernel.chunks->most_pieces);
  return counts;
}

}  // namespace moxie
