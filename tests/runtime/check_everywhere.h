#pragma once
// Known values of a formula, on every device in both precisions.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "tests/devices.h"

namespace moxie::test {

inline void check_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    CAPTURE(k);
    const bool is_close =
        found[k] == expected[k] || found[k] == doctest::Approx(expected[k]).epsilon(tolerance).scale(1);
    CHECK_MESSAGE(is_close, found[k] << " instead of " << expected[k]);
  }
}

/// On every device in both precisions; the evaluator too.
inline void check_everywhere(const std::string& text, const DimValues& dims, const TensorValues& inputs,
                             const TensorValues& expected, const std::vector<std::string>& outputs = {},
                             const std::vector<std::string>& wrt = {}) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Program program = with_dtype(parse(text), dtype);
    if (!outputs.empty()) program = differentiate(program, outputs, wrt);
    CHECK(parse(print(program)) == parse(print(parse(print(program)))));
    CAPTURE(to_string(dtype));
    const double tolerance = dtype == DType::f64 ? 1e-12 : 2e-6;
    const TensorValues reference = evaluate(program, dims, inputs);
    for (const auto& [name, values] : expected) check_close(reference.at(name), values, 1e-12);
    for (const auto& device : test_devices()) {
      CAPTURE(device->name());
      const TensorValues found = run_on(device, program, dims, inputs);
      for (const auto& [name, values] : expected) {
        CAPTURE(name);
        check_close(found.at(name), values, tolerance);
      }
    }
  }
}

}  // namespace moxie::test
