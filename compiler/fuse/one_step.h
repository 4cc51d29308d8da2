#pragma once
// Memory of scans: what nobody reads once its step is done has a place for one step only.
#include "compiler/fuse/fuse.h"

namespace moxie {

/// Tensors of scans that are no outputs and are read at their own step only, by kernels and products of the same scan,
/// get 1 as the extent of their first axis, and are written and read at 0 there.
void keep_one_step(FusedProgram& fused);

}  // namespace moxie
