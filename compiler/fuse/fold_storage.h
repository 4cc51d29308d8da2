#pragma once
// Storage folding: a tensor of a scan has room for those of its steps alone that are still to be read.
#include "compiler/fuse/fuse.h"

namespace moxie {

/// Tensors of scans that are no outputs, and are read a few steps later at most and after the scan at its last steps
/// alone, by kernels and products, keep that many steps: the extent of their first axis, also in `folded`. Steps that
/// are the last one after the other lie in the same place (see FoldedStep).
void fold_storage(FusedProgram& fused);

}  // namespace moxie
