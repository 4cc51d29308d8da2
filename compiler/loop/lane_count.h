#pragma once
// How many lanes a vector loop has.
#include "compiler/loop/loop_program.h"

namespace moxie {

/// As many of the narrowest dtype used in the vector loop as fill one register of `vector_bits`; that times
/// `registers_per_draw` where lanes draw random numbers; 1 without a vector loop.
int lane_count(const LoopProgram& program, int vector_bits, int registers_per_draw);

}  // namespace moxie
