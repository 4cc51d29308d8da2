#pragma once
// A scheduled nest becomes a LoopProgram.
#include "compiler/fuse/fuse.h"
#include "compiler/loop/lower.h"
#include "compiler/schedule/nest.h"

namespace moxie {

LoweredKernel lower(const FusedProgram& fused, const Nest& nest);

}  // namespace moxie
