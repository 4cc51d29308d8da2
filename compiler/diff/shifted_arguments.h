#pragma once
// Costly functions of neighbours, tanh(x[i-1] + x[i+1] + ..), whose derivative is needed for each of these.
#include "compiler/diff/active_tensors.h"
#include "compiler/program/program.h"

namespace moxie {

/// Gives the argument of a costly function a definition of its own where it reads several elements of an active tensor.
/// The adjoint of the argument is then computed once and read by each of these elements, which would all compute the
/// slope of the function, and its argument, again. What may be computed again all the same is decided by cost, when
/// definitions are inlined.
Program lift_shifted_arguments(const Program& program, const ActiveTensors& active);

}  // namespace moxie
