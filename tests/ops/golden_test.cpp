// Every golden case of an operation in the catalogue, values and gradients, in double.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "ops/catalogue.h"
#include "tests/ops/golden.h"

namespace {

using namespace moxie;

void check_tensor(const std::vector<double>& got, const std::vector<double>& want, double relative, double absolute) {
  CHECK(golden::relative_error(got, want, absolute) <= relative);
}

void check_values(const golden::Case& golden, const Program& program) {
  const TensorValues got = evaluate(program, golden.dims, golden.inputs);
  for (const auto& [name, want] : golden.outputs) {
    CAPTURE(name);
    check_tensor(got.at(name), want, golden.tolerances.value, golden.tolerances.absolute);
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
    check_tensor(symmetric ? golden::symmetrised(value, static_cast<std::size_t>(size)) : value, want,
                 golden.tolerances.gradient, golden.tolerances.absolute);
  }
}

void check_folder(const std::filesystem::path& folder) {
  for (const golden::Case& golden : golden::read_cases(folder)) {
    CAPTURE(golden.op);
    CAPTURE(golden.name);
    const Program program = load_op(golden.op);
    check_values(golden, program);
    if (!golden.gradients.empty()) check_gradients(golden, program);
  }
}

TEST_CASE("the shared golden values") {
  const std::filesystem::path folder = std::filesystem::path(MOXIE_SHARED_DIR) / "golden";
  if (!std::filesystem::is_directory(folder)) {
    MESSAGE("skipped: there is no " << folder.string());
    return;
  }
  check_folder(folder);
}

TEST_CASE("the golden values kept here") { check_folder(MOXIE_CASES_DIR); }

}  // namespace
