#pragma once
// Functions of indices alone, as tables that derivatives read.
#include "compiler/diff/active_tensors.h"
#include "compiler/program/program.h"

namespace moxie {

/// The Program with costly functions of indices in definitions of their own, wherever a derivative would put other
/// indices in the place of theirs. In `sum[w](x[hop*t+w]*cos(2*pi*k*w/W))`, a transform of frames, cosines depend on k
/// and w alone. In the derivative by `x[i]`, w is i - hop*t, and they would be computed for each i, t and k.
Program lift_index_tables(const Program& program, const ActiveTensors& active);

}  // namespace moxie
