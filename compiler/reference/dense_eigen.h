#pragma once
// Eigenvalues and eigenvectors of one symmetric matrix in double, and the rules that make them unique.
#include <cmath>
#include <cstddef>

#include "compiler/reference/dense.h"

namespace moxie {

/// The first component of an eigenvector whose magnitude is at least this share of the largest is positive. Not the
/// largest itself: components that are equal in theory, as those of (1, -1), would leave the sign to rounding.
inline constexpr double kLeadingShare = 0.9;

/// 1 or -1, by that rule, for a vector of `rows` components at(0), at(1), ...
template <class At>
int sign_of_vector(std::size_t rows, const At& at) {
  double largest = 0;
  for (std::size_t i = 0; i < rows; ++i) largest = std::fmax(largest, std::abs(static_cast<double>(at(i))));
  for (std::size_t i = 0; i < rows; ++i) {
    if (std::abs(static_cast<double>(at(i))) >= kLeadingShare * largest) return at(i) < 0 ? -1 : 1;
  }
  return 1;
}

struct SymmetricEigen {
  std::vector<double> values;  // ascending
  DenseMatrix vectors;         // columns
};
/// Reads the lower triangle. Nothing where an element is NaN or infinite.
std::optional<SymmetricEigen> decompose_symmetric(DenseMatrix a);

}  // namespace moxie
