#pragma once
// Makes a Sample that breaks a property small.
#include <functional>

#include "tests/property/random_program.h"

namespace moxie::test {

/// Drops definitions, inputs and axes, replaces subexpressions by their parts or by constants and shrinks dims for as
/// long as `fails` holds. Every candidate passes verify().
Sample minimise(Sample sample, const std::function<bool(const Sample&)>& fails);

}  // namespace moxie::test
