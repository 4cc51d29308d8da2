#pragma once
#include <optional>

#include "compiler/loop/nest_builder.h"

namespace moxie {

/// One linear algebra definition: a matrix per batch element, one batch element per lane, the factorisation as plain loops over scratch.
void lower_algebra(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, const std::optional<LoopIndex>& vector,
                   const std::optional<LoopIndex>& sample, BufferId output);

}  // namespace moxie
