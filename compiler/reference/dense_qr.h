#pragma once
// The factors Q and R of one matrix in double, by reflections.
#include "compiler/reference/dense.h"

namespace moxie {

struct QrFactors {
  DenseMatrix q, r;                        // A = Q R; the diagonal of R is not negative
  std::optional<BadPivot> dependent = {};  // the first column that the ones before it give, if there is one
};
/// Of a matrix with at least as many rows as columns. Without meaning where a column is not finite.
QrFactors factorise_orthogonal(DenseMatrix a);

}  // namespace moxie
