#pragma once
#include "compiler/loop/nest_builder.h"

namespace moxie {

/// Eigenvalues of a symmetric matrix in scratch, ascending, and its eigenvectors as columns, if they are wanted.
struct EigenArrays {
  ArrayId values, vectors;
};
EigenArrays lower_eigen(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                        const std::vector<LoopIndex>& batch, bool wants_vectors);

}  // namespace moxie
