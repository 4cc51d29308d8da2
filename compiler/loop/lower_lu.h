#pragma once
#include "compiler/loop/nest_builder.h"

namespace moxie {

/// The result of an operation on a general square matrix, in scratch, by elimination with row exchanges.
ArrayId lower_lu(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                 const std::vector<LoopIndex>& batch);

}  // namespace moxie
