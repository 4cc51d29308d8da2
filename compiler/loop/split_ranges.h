#pragma once
// Index set splitting: a condition on the variable of a loop that holds in all but a few iterations, as at the borders
// of a stencil or in the padding of a convolution, is known in most of the loop when its range is split there.
#include "compiler/loop/lower.h"

namespace moxie {

/// Splits the ranges of loops in up to three parts where all conditions on indices are known in the longest, and takes
/// out of each part what is known in it. For processors: threads of a GPU take the iterations of the loops as they are.
void split_ranges(LoweredKernel& kernel);

}  // namespace moxie
