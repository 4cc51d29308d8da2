#pragma once
// A matrix product for given extents: the numbers that a BLAS is given.
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/fuse/fuse.h"

namespace moxie {

struct Plan;

/// From element to element along each axis of a tensor as it lies in memory.
std::vector<std::int64_t> strides_of(const Plan& plan, const std::string& tensor, const DimValues& dims);

/// A matrix in memory. One of its strides is 1, or the matrix has one row or column only.
struct ProductMatrix {
  std::int64_t first = 0;  // element of the tensor
  std::int64_t row_stride = 0, column_stride = 0;
  bool operator==(const ProductMatrix&) const = default;
};
/// Whether it lies column by column.
bool is_transposed(const ProductMatrix& matrix);
/// From row to row, or from column to column of a transposed matrix: at least the length of one, as a BLAS wants it.
std::int64_t leading_dimension(const ProductMatrix& matrix, std::int64_t rows, std::int64_t columns);

/// One loop over products: how many there are, and the elements from one to the next.
struct ProductBatch {
  std::int64_t count = 1;
  std::int64_t left = 0, right = 0, out = 0;
  bool operator==(const ProductBatch&) const = default;
};

/// Part of the depth, or of the columns.
struct Stretch {
  std::int64_t first = 0, end = 0;
  bool operator==(const Stretch&) const = default;
};
/// A part for each row: what lies in `fixed` and in `moving`, which moves by one from row to row and is given for row
/// 0.
struct RowBand {
  Stretch fixed, moving;
  bool operator==(const RowBand&) const = default;
};

struct ProductCall {
  std::int64_t rows = 0, columns = 0, depth = 0;
  ProductMatrix left, right, out;
  std::vector<ProductBatch> batch = {};  // outermost first; loops that are one are merged, loops of one step left out
  std::optional<RowBand> band = {};      // the part of the depth that each row sums; none: all of it
  bool masked = false;                   // see MatrixProduct
  std::optional<RowBand> needed = {};    // the columns that somebody reads; none: all of them
  bool operator==(const ProductCall&) const = default;
};
ProductCall product_call(const Plan& plan, const MatrixProduct& product, const DimValues& dims,
                         const ScanPosition& at = {});
/// One product of whole matrices that lie row by row, or column by column where transposed.
ProductCall single_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool left_transposed = false,
                           bool right_transposed = false);

/// The part that belongs to this row, maybe empty.
Stretch part_of_row(const RowBand& band, std::int64_t row);

/// How many products the batch has, 1 without one.
std::int64_t batch_count(const ProductCall& call);
/// Where the product with this number begins, counted from the first of the batch.
struct ProductOffset {
  std::int64_t left = 0, right = 0, out = 0;
};
ProductOffset offset_of(const ProductCall& call, std::int64_t number);

}  // namespace moxie
