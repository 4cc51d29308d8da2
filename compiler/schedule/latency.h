#pragma once
// Latency: how long a kernel takes on a processor that waits for nothing but results.
#include "compiler/schedule/loop_tree.h"
#include "compiler/schedule/machine.h"
#include "compiler/schedule/operations.h"

namespace moxie {

/// Cycles of the longest chain of operations that wait for each other. Iterations overlap unless one carries a value
/// to the next, as far as the processor's window of instructions reaches.
double count_latency(const LoopTree& tree, const Machine& machine, const Operations& operations);

}  // namespace moxie
