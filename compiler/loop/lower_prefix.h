#pragma once
// Lowering of prefix reductions: one pass along the axis in which elements continue each other.
#include "compiler/loop/lower.h"

namespace moxie {

/// Lowers a kernel whose root has a `prefix`. A processor has its lanes along the scan, where each vector is combined
/// within itself and with what came before it, or along another axis that lies fastest in memory; a GPU has a thread
/// for each block, or for each element of another axis.
LoweredKernel lower_prefix(const FusedProgram& fused, const Kernel& kernel);

}  // namespace moxie
