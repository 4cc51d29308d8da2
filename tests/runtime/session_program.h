#pragma once
// What tests of sessions share: a step that feeds a parameter back, and values for inputs.
#include <cstdint>
#include <vector>

#include "compiler/program/program.h"
#include "runtime/host_tensor.h"

namespace moxie::test {

/// Values of an f32 input, in row-major order.
HostTensor tensor(std::vector<std::int64_t> shape, const std::vector<double>& values);

/// Moves p along the rows of x, and adds up how far it was from the origin.
Program step_program();

}  // namespace moxie::test
