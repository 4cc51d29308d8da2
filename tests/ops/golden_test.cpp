// Every golden case of an operation in the catalogue, values, gradients and tangents, in double; and what a file of
// cases must hold.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/tangents.h"
#include "ops/catalogue.h"
#include "tests/ops/golden.h"
#include "tests/ops/reference_values.h"
#include "tests/skip.h"

namespace {

using namespace moxie;

void check_values(const golden::Case& golden, const Program& program) {
  const TensorValues got = evaluate(program, golden.dims, golden.inputs);
  for (const auto& [name, want] : golden.outputs) {
    CAPTURE(name);
    CHECK(reference::relative_error(got.at(name), want, golden.in_double.absolute) <= golden.in_double.value);
  }
}

void check_gradients(const golden::Case& golden, const Program& program) {
  std::vector<std::string> outputs;
  TensorValues inputs = golden.inputs;
  for (const auto& [name, cotangent] : golden.cotangents) {
    outputs.push_back(name);
    inputs["cot." + name] = cotangent;
  }
  const Program gradient = differentiate(program, outputs, differentiable_inputs(get_op(golden.op), program));
  const TensorValues got = evaluate(gradient, golden.dims, inputs);
  for (const auto& [name, want] : golden.gradients) {
    CAPTURE(name);
    const bool symmetric = std::ranges::find(golden.symmetric_inputs, name) != golden.symmetric_inputs.end();
    const Affine last = program.shape_of(name).empty() ? Affine() : program.shape_of(name).back();
    const auto size = last.evaluate([&](Symbol dim) { return golden.dims.at(dim.name()); });
    const std::vector<double>& value = got.at("grad." + name);
    CHECK(reference::relative_error(symmetric ? golden::symmetrised(value, static_cast<std::size_t>(size)) : value,
                                    want, golden.in_double.absolute) <= golden.in_double.gradient);
  }
}

/// A direction in which the input moves; symmetric where only symmetric values count.
std::vector<double> direction_of(const std::vector<double>& input, std::size_t symmetric_size) {
  std::vector<double> direction(input.size());
  for (std::size_t k = 0; k < direction.size(); ++k) direction[k] = std::cos(static_cast<double>(k));
  return symmetric_size ? golden::symmetrised(direction, symmetric_size) : direction;
}

/// <u, J v> against <g, v>, where g are the golden gradients.
void check_tangents(const golden::Case& golden, const Program& program) {
  std::vector<std::string> outputs, wrt;
  for (const auto& [name, cotangent] : golden.cotangents) outputs.push_back(name);
  TensorValues inputs = golden.inputs;
  double wanted = 0, size = golden.in_double.absolute, got = 0;
  for (const auto& [name, gradient] : golden.gradients) {
    wrt.push_back(name);
    const bool symmetric = std::ranges::find(golden.symmetric_inputs, name) != golden.symmetric_inputs.end();
    const Affine last = program.shape_of(name).empty() ? Affine() : program.shape_of(name).back();
    const auto extent = last.evaluate([&](Symbol dim) { return golden.dims.at(dim.name()); });
    const std::vector<double> direction = direction_of(gradient, symmetric ? static_cast<std::size_t>(extent) : 0);
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      wanted += gradient[k] * direction[k];
      size += std::abs(gradient[k] * direction[k]);
    }
    inputs["tan." + name] = direction;
  }
  const TensorValues values = evaluate(tangents(program, outputs, wrt), golden.dims, inputs);
  for (const auto& [name, cotangent] : golden.cotangents) {
    for (std::size_t k = 0; k < cotangent.size(); ++k) got += cotangent[k] * values.at("tan." + name)[k];
  }
  CHECK(std::abs(got - wanted) <= golden.in_double.gradient * size);
}

void check_folder(const std::filesystem::path& folder) {
  for (const golden::Case& golden : golden::read_cases(folder)) {
    CAPTURE(golden.op);
    CAPTURE(golden.name);
    const Program program = load_op(golden.op);
    check_values(golden, program);
    if (golden.gradients.empty()) continue;
    check_gradients(golden, program);
    check_tangents(golden, program);
  }
}

TEST_CASE("the shared golden values" * doctest::test_suite("shared")) {
  const std::filesystem::path folder = std::filesystem::path(MOXIE_SHARED_DIR) / "golden";
  if (!std::filesystem::is_directory(folder)) return test::skip("there is no " + folder.string());
  check_folder(folder);
}

TEST_CASE("the golden values kept here") { check_folder(MOXIE_CASES_DIR); }

TEST_CASE("every operation has a golden case kept here, with gradients where it has any") {
  std::set<std::string> with_values, with_gradients;
  for (const golden::Case& golden : golden::read_cases(MOXIE_CASES_DIR)) {
    with_values.insert(golden.op);
    if (!golden.gradients.empty()) with_gradients.insert(golden.op);
  }
  for (const Op& op : catalogue()) {
    const std::string name(op.name);
    INFO(name, ": write its reference in tests/ops/cases and run make_cases.py");
    CHECK(with_values.contains(name));
    CHECK(with_gradients.contains(name) == golden::has_gradients(name));
  }
}

/// A file about gpn.points, whose members are `members`.
std::string points_case(const std::string& members) {
  return fmt::format(R"({{"cases": [{{"op": "gpn.points", "name": "one", "dims": {{"R": 1}},
    "inputs": {{"V0": {{"shape": [1], "data": [2]}}, "h": {{"shape": [1], "data": [1]}}}}, "cotangents": {{}}{}}}]}})",
                     members);
}

TEST_CASE("a file that would compare less than it seems to is refused") {
  const std::string outputs = R"(, "outputs": {"V": {"shape": [1, 1], "data": [2]}})";
  const std::string no_outputs = R"(, "outputs": {})";
  const std::string no_gradients = R"(, "gradients": {}, "note": "values only")";
  const std::string gradients = R"(, "gradients": {"h": {"shape": [1], "data": [0]}})";
  const std::string both = R"(, "rtol_float64": 1e-12, "rtol_float32": 1e-5)";
  const auto parse = [](const std::string& members) { return golden::parse_cases("gpn.points", points_case(members)); };
  CHECK(parse(outputs + no_gradients + both).front().dims == DimValues{{"N", 1}, {"R", 1}});
  CHECK_THROWS_WITH_AS(parse(outputs + no_gradients + R"(, "rtol_float64": 1e-12)"),
                       doctest::Contains("gpn.points.json: [json.exception.out_of_range.403] key 'rtol_float32'"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(parse(outputs + gradients + both), doctest::Contains("key 'rtol_grad_float64'"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(parse(outputs + R"(, "gradients": {})" + both), doctest::Contains("neither gradients nor"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(parse(no_outputs + no_gradients + both), doctest::Contains("no outputs"), std::runtime_error);
}

TEST_CASE("values that are not finite are never near") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  CHECK(reference::relative_error({1, 2}, {1, 2.5}) == doctest::Approx(0.2));
  CHECK(reference::relative_error({1, 2}, {1, 2.5}, 0, 5) == doctest::Approx(0.1));
  CHECK(reference::relative_error({0}, {0}) == 0);
  CHECK(reference::relative_error({1e-300}, {0}) == kInfinity);
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    CHECK(reference::relative_error({1, bad}, {1, 2}) == kInfinity);
    CHECK(reference::relative_error({1, 2}, {1, bad}) == kInfinity);
    CHECK(reference::relative_error({1, bad}, {1, bad}) == kInfinity);
  }
  CHECK(reference::relative_error({1}, {1, 2}) == kInfinity);
}

}  // namespace
