#pragma once
// Index set splitting. A condition on a loop variable often holds in all but a few iterations, as at the borders of a
// stencil or in the padding of a convolution. Once the range of the loop is split there, most iterations test nothing.
#include "compiler/loop/lower.h"

namespace moxie {

/// Splits the ranges of loops in up to three parts where all conditions on indices are known in the longest, and takes
/// out of each part what is known in it. For processors: threads of a GPU take the iterations of the loops as they are.
void split_ranges(LoweredKernel& kernel);

}  // namespace moxie
