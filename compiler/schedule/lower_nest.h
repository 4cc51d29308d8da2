#pragma once
// A scheduled nest becomes a LoopProgram.
#include "compiler/fuse/fuse.h"
#include "compiler/loop/lower.h"
#include "compiler/schedule/nest.h"

namespace moxie {

/// Makes what lowering the nest in other loops would make again.
Nest prepared(const FusedProgram& fused, Nest nest);
LoweredKernel lower(const FusedProgram& fused, const Nest& nest);

}  // namespace moxie
