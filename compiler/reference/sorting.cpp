#include "compiler/reference/sorting.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moxie {

std::vector<std::size_t> sorted_positions(std::span<const double> row) {
  std::vector<std::size_t> positions(row.size());
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  const auto precedes = [&](std::size_t a, std::size_t b) {
    return std::isnan(row[b]) ? !std::isnan(row[a]) : row[a] < row[b];
  };
  std::ranges::stable_sort(positions, precedes);
  return positions;
}

std::vector<double> sort_row(LinearAlgebraKind kind, std::span<const double> row) {
  std::vector<double> result;
  for (const std::size_t position : sorted_positions(row))
    result.push_back(kind == LinearAlgebraKind::Sort ? row[position] : static_cast<double>(position));
  return result;
}

}  // namespace moxie
