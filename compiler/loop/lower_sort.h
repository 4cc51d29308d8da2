#pragma once
#include "compiler/loop/lower_algebra.h"

namespace moxie {

/// Stores the positions of a row's elements in ascending order, as many as the result has. Batcher's bitonic sorting
/// network: loops of independent comparisons whose subscripts do not depend on values, so that lanes sort a row each,
/// or the threads of a block one row together.
void lower_sort(NestBuilder& nest, LoopProgram& program, const AlgebraResult& result, bool varying);

}  // namespace moxie
