#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace moxie {

/// Rows of floats, one after the other.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<float> values;
  bool operator==(const Matrix&) const = default;

  Matrix() = default;
  Matrix(std::size_t row_count, std::size_t column_count)
      : rows(row_count), columns(column_count), values(row_count * column_count) {}

  float& operator()(std::size_t row, std::size_t column) { return values[row * columns + column]; }
  float operator()(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
  std::span<float> row(std::size_t index) { return {values.data() + index * columns, columns}; }
  std::span<const float> row(std::size_t index) const { return {values.data() + index * columns, columns}; }
};

}  // namespace moxie
