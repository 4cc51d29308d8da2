#pragma once
// Products of small matrices by register tiles: c[m,n] (+)= sum over k of a[m,k] b[k,n].
#include "hand.h"

/// a[m*row + k*column]; b and c have contiguous rows, b of whole vectors.
struct Left {
  const float* at;
  std::int64_t row, column;
};

template <int kRows, int kVectors>
inline void tile(std::int64_t depth, Left a, const float* b, std::int64_t b_row, float* c, std::int64_t c_row,
                 std::int64_t last, bool add) {
  Vec sums[kRows][kVectors] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Vec right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = load(b + k * b_row + v * kLanes);
    for (int m = 0; m < kRows; ++m) {
      const Vec left = all(a.at[m * a.row + k * a.column]);
      for (int v = 0; v < kVectors; ++v) sums[m][v] += left * right[v];
    }
  }
  for (int m = 0; m < kRows; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + m * c_row + v * kLanes;
      const bool whole = v + 1 < kVectors || last == kLanes;
      if (whole)
        store(to, add ? load(to) + sums[m][v] : sums[m][v]);
      else
        store(to, add ? load(to, last) + sums[m][v] : sums[m][v], last);
    }
  }
}

template <int kVectors>
inline void tile_rows(std::int64_t rows, std::int64_t depth, Left a, const float* b, std::int64_t b_row, float* c,
                      std::int64_t c_row, std::int64_t last, bool add) {
  constexpr int kRows = kVectors > 3 ? 6 : 8;
  std::int64_t m = 0;
  for (; m + kRows <= rows; m += kRows)
    tile<kRows, kVectors>(depth, {a.at + m * a.row, a.row, a.column}, b, b_row, c + m * c_row, c_row, last, add);
  for (; m + 2 <= rows; m += 2)
    tile<2, kVectors>(depth, {a.at + m * a.row, a.row, a.column}, b, b_row, c + m * c_row, c_row, last, add);
  if (m < rows)
    tile<1, kVectors>(depth, {a.at + m * a.row, a.row, a.column}, b, b_row, c + m * c_row, c_row, last, add);
}

inline void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, Left a, const float* b,
                     std::int64_t b_row, float* c, std::int64_t c_row, bool add = false) {
  constexpr int kWide = kLanes == 16 ? 4 : 2;
  std::int64_t n = 0;
  for (; n + kWide * kLanes <= columns; n += kWide * kLanes)
    tile_rows<kWide>(rows, depth, a, b + n, b_row, c + n, c_row, kLanes, add);
  const std::int64_t vectors = (columns - n + kLanes - 1) / kLanes, last = columns - n - (vectors - 1) * kLanes;
  switch (vectors) {
    case 1:
      return tile_rows<1>(rows, depth, a, b + n, b_row, c + n, c_row, last, add);
    case 2:
      return tile_rows<2>(rows, depth, a, b + n, b_row, c + n, c_row, last, add);
    case 3:
      return tile_rows<3>(rows, depth, a, b + n, b_row, c + n, c_row, last, add);
    case 4:
      return tile_rows<4>(rows, depth, a, b + n, b_row, c + n, c_row, last, add);
    default:
      return;
  }
}

/// to[c,r] = from[r,c], with rows of `to_row`.
inline void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to, std::int64_t to_row) {
  for (std::int64_t r0 = 0; r0 < rows; r0 += 16) {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = r0; r < std::min(r0 + 16, rows); ++r) to[c * to_row + r] = from[r * columns + c];
    }
  }
}
