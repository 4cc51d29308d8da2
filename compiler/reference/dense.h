#pragma once
// Dense linear algebra in double on one small matrix: the reference of the LinearAlgebra nodes.
#include <cstddef>
#include <optional>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

/// Row-major.
struct DenseMatrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;

  explicit DenseMatrix(std::size_t n) : DenseMatrix(n, n) {}
  DenseMatrix(std::size_t m, std::size_t n) : rows(m), columns(n), values(m * n) {}
  double& operator()(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

/// The first pivot that is not good, and where; of eigenvalues that are not found, a NaN.
struct BadPivot {
  std::size_t row;
  double value;
};

/// Replaces `a` by its Cholesky factor (lower, zeros above), reading its lower triangle only.
std::optional<BadPivot> factorise(DenseMatrix& a);
/// Solve L x = b and L^T x = b in place.
void solve_lower(const DenseMatrix& lower, std::vector<double>& b);
void solve_lower_transposed(const DenseMatrix& lower, std::vector<double>& b);

/// A matrix with its rows exchanged is L U: L below the diagonal of `factors`, with ones on it, and U. Step j has
/// exchanged rows j and swaps[j].
struct LuFactors {
  DenseMatrix factors;
  std::vector<std::size_t> swaps;
  std::optional<BadPivot> singular = {};  // the first pivot that is 0 or NaN
};
LuFactors factorise_general(DenseMatrix a);

/// The whole result of the operation, row-major: as many numbers as it has elements. `rhs` is empty where the operation
/// has none. On failure `bad` is set and the result is empty.
std::vector<double> apply(LinearAlgebraKind kind, DenseMatrix a, std::vector<double> rhs, std::optional<BadPivot>& bad);

}  // namespace moxie
