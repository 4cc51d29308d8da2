#pragma once
// Chooses how many iterations of each loop are taken at once.
#include "compiler/loop/loop_program.h"

namespace moxie {

/// Sets stmt::For::interleave of the innermost loops that accumulate: so high that the accumulation of one iteration
/// need not wait for that of the iteration before, as far as registers and trips suffice. Depends on the program alone.
void interleave(LoopProgram& program);

}  // namespace moxie
