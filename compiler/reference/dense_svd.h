#pragma once
// Singular values and vectors of one matrix in double.
#include "compiler/reference/dense.h"

namespace moxie {

/// A = U diag(values) V^T
struct SingularVectors {
  std::vector<double> values;  // descending
  DenseMatrix u, v;            // orthonormal columns: as many as A has; those of V follow the rule of sign_of_vector()
};
/// Of a matrix with at least as many rows as columns. Nothing where an element is NaN or infinite.
std::optional<SingularVectors> decompose_singular(DenseMatrix a);

}  // namespace moxie
