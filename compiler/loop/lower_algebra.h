#pragma once
#include <optional>

#include "compiler/loop/nest_builder.h"

namespace moxie {

/// One linear algebra definition, in its kernel's loops, and where its result goes.
struct AlgebraResult {
  const KernelRoot* root;
  BufferId output;
};

/// Results of one matrix per batch element, one batch element per lane, the factorisation as plain loops over scratch.
void lower_algebra(NestBuilder& nest, LoopProgram& program, const std::vector<AlgebraResult>& results,
                   const std::optional<LoopIndex>& vector, const std::optional<LoopIndex>& sample);

}  // namespace moxie
