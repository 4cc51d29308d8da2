#pragma once
// What passes leave has the formula's values on every device that takes part.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/reference/evaluate.h"
#include "tests/devices.h"

namespace moxie::test {

inline void check_values_on_devices(const Program& program, const DimValues& dims, const TensorValues& inputs) {
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : test_devices()) {
    CAPTURE(device->name());
    for (const auto& [name, values] : run_on(device, program, dims, inputs)) {
      CAPTURE(name);
      REQUIRE(values.size() == expected.at(name).size());
      double worst = 0, largest = 1;
      for (std::size_t k = 0; k < values.size(); ++k) {
        worst = std::max(worst, std::abs(values[k] - expected.at(name)[k]));
        largest = std::max(largest, std::abs(values[k]));
      }
      CHECK(worst <= 1e-5 * largest);
    }
  }
}

inline void check_values_on_devices(const Program& program, const DimValues& dims) {
  check_values_on_devices(program, dims, wave_inputs(program, dims));
}

}  // namespace moxie::test
