#pragma once
#include "compiler/loop/nest_builder.h"

namespace moxie {

/// Singular values in scratch, descending, and U above V, if they are wanted.
struct SvdArrays {
  ArrayId values, vectors;
};
SvdArrays lower_svd(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                    const std::vector<LoopIndex>& batch, bool wants_vectors);

}  // namespace moxie
