#pragma once
// Random Programs that use every feature of the language, and values to run them on.
#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"

namespace moxie::test {

/// A Program with values for all of its dims.
struct Sample {
  unsigned seed = 0;  // of the inputs' values
  Program program;
  DimValues dims;
};

/// The same Sample for the same seed. It passes verify(), but nothing promises that its values are finite.
Sample random_sample(unsigned seed);

/// Inputs in their sign domains, not far from 1. An input's values depend on its name and shape only, not on the other
/// inputs.
TensorValues sample_inputs(const Program& program, const DimValues& dims, unsigned seed);

/// Values for the static dims alone.
DimValues static_dims(const Sample& sample);
/// The same Sample with other values for its dynamic dims.
Sample with_other_extents(Sample sample);

}  // namespace moxie::test
