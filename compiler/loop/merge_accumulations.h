#pragma once
// One accumulator for a reduction over several indices.
#include "compiler/loop/loop_program.h"

namespace moxie {

/// A reduction directly inside another of its kind, sum[c](sum[p](..)), accumulates in a var of its own, which the loop
/// around adds to another one: the inner loop then accumulates in the outer var. That saves a register and an operation
/// for every iteration of the outer loop. As the rounding errors of a sum grow with the number of its terms, a var that
/// is known to take `longest` terms at most is merged, and no other.
void merge_accumulations(LoopProgram& program, double longest);

/// About what a BLAS library adds up in a register.
inline constexpr double kLongestChain = 1024;

}  // namespace moxie
