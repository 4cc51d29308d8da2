#pragma once
// Which elements belong to a slice, computed when a call is made: what compiler/fuse/slices.cpp computes for known
// dims.
#include "compiler/fuse/slices.h"
#include "runtime/aot/dim_math.h"

namespace moxie::aot {

/// How many slices there are.
Val count_of_slices(FunctionWriter& writer, DimMath& math, const Slices& slices);
/// Gives `math` the dims of the slice that runs after `done` others.
void set_dims_of_run(FunctionWriter& writer, DimMath& math, const Slices& slices, const Val& done);
/// Gives `math` the dims of the first slice, which is the largest.
void set_dims_of_first(FunctionWriter& writer, DimMath& math, const Slices& slices);

}  // namespace moxie::aot
