#pragma once
// A scheduled nest becomes a LoopProgram.
#include "compiler/fuse/fuse.h"
#include "compiler/loop/lower.h"
#include "compiler/schedule/nest.h"

namespace moxie {

/// Makes what lowering the nest in other loops would make again.
Nest prepared(const FusedProgram& fused, Nest nest);
LoweredKernel lower(const FusedProgram& fused, const Nest& nest);
/// Whether the reader, in the same nest, may take what the producer computes for what it stores. Integers and halves
/// are rounded where they are stored, and what is computed in another dtype would be computed again. An element that a
/// value names is one of other iterations.
bool takes_what_is_computed(const Definition& reader, const Definition& producer, const Expr& access);

}  // namespace moxie
