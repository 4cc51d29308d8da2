#pragma once
// Properties of Programs, checked on random Samples. A Sample that breaks one is made small and printed as .mox text.
#include <functional>
#include <optional>
#include <string>

#include "tests/property/random_program.h"

namespace moxie::test {

/// What is wrong with a Sample; nothing if the property holds.
using Finding = std::optional<std::string>;
using Property = std::function<Finding(const Sample&)>;

/// Checks the property on `count` Samples. PROPERTY_SEEDS=N takes N times as many, PROPERTY_FIRST=K starts at seed K.
void check_property(unsigned count, const Property& property);

/// The Sample as text: program, dims and seed.
std::string describe(const Sample& sample);

/// What a Sample computes, by evaluate().
struct Reference {
  Program program;  // specialised
  TensorValues inputs;
  TensorValues values;
};
/// Nothing where the formulas leave their domains, or where a change of the inputs by `change` (relative) moves a value
/// by more than `sensitivity` (relative to the tensor): there rounding decides.
std::optional<Reference> reference(const Sample& sample, double change = 1e-12, double sensitivity = 1e-8);
/// The same for the vector-Jacobian product of all outputs with respect to all inputs.
std::optional<Reference> gradient_reference(const Sample& sample, double change = 1e-12, double sensitivity = 1e-8);

/// Compares the outputs of `program`, relative to the largest magnitude of each. Elements outside the ranges of their
/// axes are zero.
Finding difference(const Program& program, const TensorValues& got, const TensorValues& want, double tolerance);

}  // namespace moxie::test
