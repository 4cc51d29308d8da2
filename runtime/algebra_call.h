#pragma once
// A call of dense linear algebra for given extents: where its matrices lie.
#include <cstdint>
#include <vector>

#include "compiler/fuse/fuse.h"
#include "compiler/fuse/scan_position.h"

namespace moxie {

struct Plan;

/// A matrix in memory, in elements from the start of the tensor.
struct MatrixPlace {
  std::int64_t first = 0;
  std::int64_t row_stride = 0, column_stride = 0;
  bool operator==(const MatrixPlace&) const = default;
};

/// One loop over matrices: how many there are, and the elements from one to the next.
struct AlgebraBatch {
  std::string name;  // of the axis
  std::int64_t count = 1;
  std::int64_t matrix = 0, rhs = 0, out = 0;
  std::int64_t first = 0;  // the number of the first: of the step of a scan, its own
  bool operator==(const AlgebraBatch&) const = default;
};

/// Of a solve, `columns` counts those of `rhs` and `out`: the right-hand sides of one matrix: the longest axis of the
/// definition that the matrix does not depend on.
struct AlgebraShape {
  std::int64_t rows = 0, matrix_columns = 0;  // of the matrix; elements of the row that is sorted
  std::int64_t out_rows = 0;                  // of the result that are stored: a sort may stop there
  std::int64_t columns = 1;
  MatrixPlace matrix, rhs, out;
  std::vector<AlgebraBatch> batch = {};  // outermost first
  bool operator==(const AlgebraShape&) const = default;
};
/// In a scan, of the matrices of the step `at`.
AlgebraShape algebra_shape(const Plan& plan, const AlgebraCall& call, const DimValues& dims, const ScanPosition& at);

/// The matrices with this number in the batch, and where in it they are.
struct AlgebraElement {
  std::int64_t matrix = 0, rhs = 0, out = 0;
  std::vector<std::int64_t> coordinates = {};
};
std::int64_t batch_count(const AlgebraShape& shape);
AlgebraElement element_of(const AlgebraShape& shape, std::int64_t number);

/// Says that a matrix of the batch cannot be factored: throws DomainError.
[[noreturn]] void fail_factorisation(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number,
                                     std::int64_t pivot, double value);

}  // namespace moxie
