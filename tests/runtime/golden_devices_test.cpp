// Every golden case on every device: one test body, in double and in single.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/ops/golden.h"

namespace {

using namespace moxie;

struct Setting {
  std::string device;
  DType dtype;
};

class GoldenRun {
 public:
  GoldenRun(const golden::Case& golden, const Setting& setting, std::shared_ptr<Device> device)
      : golden_(golden),
        tolerances_(setting.dtype == DType::f32 ? golden.tolerances_f32 : golden.tolerances),
        dtype_(setting.dtype),
        device_(std::move(device)) {}

  void check() {
    const Program op = load_op(golden_.op);
    const Program program = dtype_ == DType::f64 ? with_dtype(op, DType::f64) : op;
    // A tolerance of 1 says that the formula has no digits left in this precision.
    if (tolerances_.value < 1) check_values(program);
    if (!golden_.gradients.empty() && tolerances_.gradient < 1) check_gradients(program);
  }

 private:
  Session run(const Program& program, const TensorValues& inputs) {
    DimValues fixed;
    for (const DimDecl& dim : program.dims) {
      if (const auto it = golden_.dims.find(dim.name); it != golden_.dims.end() && !dim.dynamic)
        fixed[dim.name] = it->second;
    }
    Session session(program, fixed, device_);
    for (const InputDecl& input : program.inputs) {
      session.set(input.name,
                  make_host_tensor(input.dtype, extents_of(program, input.name, golden_.dims), inputs.at(input.name)));
    }
    session.run();
    return session;
  }

  void check_tensor(const std::string& name, const std::vector<double>& got, const std::vector<double>& want,
                    double relative) {
    CAPTURE(name);
    const double error = golden::relative_error(got, want, tolerances_.absolute);
    CHECK(error <= relative);
  }

  void check_values(const Program& program) {
    const Session session = run(program, golden_.inputs);
    for (const auto& [name, want] : golden_.outputs)
      check_tensor(name, to_doubles(session.get(name)), want, tolerances_.value);
  }

  void check_gradients(const Program& program) {
    std::vector<std::string> outputs;
    TensorValues inputs = golden_.inputs;
    for (const auto& [name, cotangent] : golden_.cotangents) {
      outputs.push_back(name);
      inputs["cot." + name] = cotangent;
    }
    const Session session =
        run(differentiate(program, outputs, differentiable_inputs(get_op(golden_.op), program)), inputs);
    for (const auto& [name, want] : golden_.gradients) {
      std::vector<double> got = to_doubles(session.get("grad." + name));
      if (std::ranges::find(golden_.symmetric_inputs, name) != golden_.symmetric_inputs.end()) {
        got = golden::symmetrised(got, static_cast<std::size_t>(extents_of(program, name, golden_.dims).back()));
      }
      check_tensor("grad." + name, got, want, tolerances_.gradient);
    }
  }

  const golden::Case& golden_;
  const golden::Tolerances& tolerances_;
  DType dtype_;
  std::shared_ptr<Device> device_;
};

void check_folder(const std::filesystem::path& folder, const Setting& setting, const std::shared_ptr<Device>& device) {
  for (const golden::Case& golden : golden::read_cases(folder)) {
    CAPTURE(golden.op);
    CAPTURE(golden.name);
    CHECK_NOTHROW(GoldenRun(golden, setting, device).check());
  }
}

void check_all(const Setting& setting) {
  const auto device = test::test_device(setting.device);
  if (!device) return;
  check_folder(MOXIE_CASES_DIR, setting, device);
  const std::filesystem::path shared = std::filesystem::path(MOXIE_SHARED_DIR) / "golden";
  if (std::filesystem::is_directory(shared))
    check_folder(shared, setting, device);
  else
    MESSAGE("skipped: there is no " << shared.string());
}

TEST_CASE("golden values on interp") { check_all({"interp", DType::f64}); }
TEST_CASE("golden values on cpu in double") { check_all({"cpu", DType::f64}); }
TEST_CASE("golden values on cpu in single") { check_all({"cpu", DType::f32}); }
TEST_CASE("golden values on cuda-emu in double") { check_all({"cuda-emu", DType::f64}); }
TEST_CASE("golden values on cuda-emu in single") { check_all({"cuda-emu", DType::f32}); }
TEST_CASE("golden values on cuda in double") { check_all({"cuda", DType::f64}); }
TEST_CASE("golden values on cuda in single") { check_all({"cuda", DType::f32}); }

}  // namespace
