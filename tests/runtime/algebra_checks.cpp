#include "tests/runtime/algebra_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/devices.h"

namespace moxie::test {

void check_values(const TensorValues& found, const TensorValues& expected, double tolerance) {
  for (const auto& [name, values] : found) {
    CAPTURE(name);
    double worst = 0, largest = 1;
    for (std::size_t k = 0; k < values.size(); ++k) {
      worst = std::max(worst, std::abs(values[k] - expected.at(name)[k]));
      largest = std::max(largest, std::abs(values[k]));
    }
    CHECK(worst <= tolerance * largest);
  }
}

DimValues all_dims(const Program& program, DimValues dims) {
  for (const DimDecl& dim : program.dims) {
    if (dim.value) dims[dim.name] = *dim.value;
  }
  return dims;
}

void check_devices(const Program& program, const DimValues& given, double tolerance) {
  const DimValues dims = all_dims(program, given);
  const TensorValues inputs = wave_inputs(program, dims);
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : test_devices()) {
    CAPTURE(device->name());
    check_values(run_on(device, program, dims, inputs), expected, tolerance);
  }
}

}  // namespace moxie::test
