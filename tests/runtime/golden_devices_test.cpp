// Every golden case on every device: one test body, in double and in single.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/ops/golden.h"
#include "tests/ops/reference_values.h"
#include "tests/sample.h"

namespace {

using namespace moxie;

struct Setting {
  const char* device;
  DType dtype;
};

/// How many tensors of an operation were compared.
struct Count {
  int values = 0, gradients = 0;
};
using Counts = std::map<std::string, Count>;

class GoldenRun {
 public:
  GoldenRun(const golden::Case& golden, const Setting& setting, std::shared_ptr<Device> device)
      : golden_(golden),
        tolerances_(setting.dtype == DType::f32 ? golden.in_single : golden.in_double),
        dtype_(setting.dtype),
        device_(std::move(device)) {}

  /// One run gives values and gradients on devices that compile slowly; the CPU runs the operation alone as well.
  void check(Count& count) {
    const Program op = load_op(golden_.op);
    const Program program = dtype_ == DType::f64 ? with_dtype(op, DType::f64) : op;
    if (golden_.gradients.empty()) {
      skip("gradients", golden_.note);
      check_values(test::run_on(device_, program, golden_.dims, golden_.inputs), count);
      return;
    }
    if (device_->name() == "cpu") check_values(test::run_on(device_, program, golden_.dims, golden_.inputs), count);
    const TensorValues got = run_gradient(program);
    check_values(got, count);
    check_gradients(program, got, count);
  }

 private:
  void skip(std::string_view what, std::string_view why) const {
    MESSAGE(fmt::format("not compared: {} of {}, case {}: {}", what, golden_.op, golden_.name, why));
  }

  /// Says so where this precision has no digits left.
  bool can_compare(double tolerance, std::string_view what) const {
    if (tolerance < 1) return true;
    skip(what, "a straightforward evaluation has no digits left in this precision");
    return false;
  }

  void check_tensor(const std::string& name, const std::vector<double>& got, const std::vector<double>& want,
                    double relative) {
    CAPTURE(name);
    CHECK(reference::relative_error(got, want, tolerances_.absolute) <= relative);
  }

  void check_values(const TensorValues& got, Count& count) {
    if (!can_compare(tolerances_.value, "values")) return;
    for (const auto& [name, want] : golden_.outputs) {
      check_tensor(name, got.at(name), want, tolerances_.value);
      ++count.values;
    }
  }

  TensorValues run_gradient(const Program& program) {
    std::vector<std::string> outputs;
    TensorValues inputs = golden_.inputs;
    for (const auto& [name, cotangent] : golden_.cotangents) {
      outputs.push_back(name);
      inputs["cot." + name] = cotangent;
    }
    const auto wrt = differentiable_inputs(get_op(golden_.op), program);
    return test::run_on(device_, differentiate(program, outputs, wrt), golden_.dims, inputs);
  }

  void check_gradients(const Program& program, const TensorValues& got, Count& count) {
    if (!can_compare(tolerances_.gradient, "gradients")) return;
    for (const auto& [name, want] : golden_.gradients) {
      std::vector<double> gradient = got.at("grad." + name);
      if (std::ranges::find(golden_.symmetric_inputs, name) != golden_.symmetric_inputs.end()) {
        const auto size = static_cast<std::size_t>(extents_of(program, name, golden_.dims).back());
        gradient = golden::symmetrised(gradient, size);
      }
      check_tensor("grad." + name, gradient, want, tolerances_.gradient);
      ++count.gradients;
    }
  }

  const golden::Case& golden_;
  const golden::Tolerances& tolerances_;
  DType dtype_;
  std::shared_ptr<Device> device_;
};

/// GOLDEN=all takes all operations, else the emulators take samples. The log names the others.
bool takes_part(std::string_view op, const Setting& setting) {
  const auto place = std::ranges::find(catalogue(), op, &Op::name) - catalogue().begin();
  return std::getenv("GOLDEN") != nullptr ||
         test::is_sampled(setting.device, setting.dtype, static_cast<std::size_t>(place));
}

void check_folder(const std::filesystem::path& folder, const Setting& setting, const std::shared_ptr<Device>& device,
                  Counts& counts) {
  for (const golden::Case& golden : golden::read_cases(folder)) {
    if (!takes_part(golden.op, setting)) continue;
    CAPTURE(golden.op);
    CAPTURE(golden.name);
    CHECK_NOTHROW(GoldenRun(golden, setting, device).check(counts[golden.op]));
  }
}

/// A comparison that does not happen must not pass for one that succeeds.
void check_all_compared(const Counts& counts, const Setting& setting) {
  Count total;
  std::vector<std::string> others;
  for (const Op& op : catalogue()) {
    const std::string name(op.name);
    if (!takes_part(name, setting)) {
      others.push_back(name);
      continue;
    }
    CAPTURE(name);
    const auto it = counts.find(name);
    const Count count = it == counts.end() ? Count() : it->second;
    CHECK(count.values > 0);
    CHECK((count.gradients > 0) == golden::has_gradients(name));
    total.values += count.values;
    total.gradients += count.gradients;
  }
  if (!others.empty()) {
    MESSAGE(fmt::format("{} in {}, to save time without (GOLDEN=all compares all): {}", setting.device,
                        test::precision_of(setting.dtype), fmt::join(others, ", ")));
  }
  MESSAGE(fmt::format("{} in {}: {} tensors of values and {} of gradients of {} operations compared", setting.device,
                      test::precision_of(setting.dtype), total.values, total.gradients, counts.size()));
}

void check_all(const Setting& setting) {
  const auto device = test::test_device(setting.device);
  if (!device) return;
  Counts counts;
  check_folder(MOXIE_CASES_DIR, setting, device, counts);
  check_all_compared(counts, setting);
  const std::filesystem::path shared = std::filesystem::path(MOXIE_SHARED_DIR) / "golden";
  if (std::filesystem::is_directory(shared))
    check_folder(shared, setting, device, counts);
  else
    MESSAGE("compared with the cases kept here only: there is no " << shared.string());
}

TEST_CASE("interp_double") { check_all({"interp", DType::f64}); }
TEST_CASE("interp_single") { check_all({"interp", DType::f32}); }
TEST_CASE("cpu_double") { check_all({"cpu", DType::f64}); }
TEST_CASE("cpu_single") { check_all({"cpu", DType::f32}); }
TEST_CASE("emu_double") { check_all({"cuda-emu", DType::f64}); }
TEST_CASE("emu_single") { check_all({"cuda-emu", DType::f32}); }
TEST_CASE("cuda_double") { check_all({"cuda", DType::f64}); }
TEST_CASE("cuda_single") { check_all({"cuda", DType::f32}); }

}  // namespace
