// Formulas that were written elsewhere, values, gradients and tangents, on every device in double and in single.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/jacobian.h"
#include "compiler/diff/tangents.h"
#include "runtime/switches.h"
#include "tests/devices.h"
#include "tests/ops/suite.h"
#include "tests/sample.h"
#include "tests/skip.h"

namespace {

using namespace moxie;

struct Setting {
  const char* device;
  DType dtype;
};

/// SUITE_FORMULAS=LIST takes the formulas named there, else all take part.
bool takes_part(const std::filesystem::path& text) {
  const char* wanted = std::getenv("SUITE_FORMULAS");
  if (wanted == nullptr) return true;
  const auto names = split_list(wanted);
  return std::ranges::find(names, text.stem().string()) != names.end();
}

/// Devices that take long to compile or to run leave out the largest cases.
bool takes_part(const suite::Case& item, const Setting& setting) {
  return item.name != "big" || setting.device == std::string_view("cpu") || setting.device == std::string_view("cuda");
}

/// What single precision cannot give, as the formula is written: the error that is allowed in place of the suite's.
struct Shortfall {
  std::string_view formula, size, tensor;
  double error;
  const char* why;
};
constexpr const char* kFilter =
    "rounding leaves the covariances unsymmetric, and A, whose spectral radius is above 1, amplifies that in every "
    "step";
constexpr Shortfall kShortfalls[] = {
    {"en_kalman", "big", "grad.A", 0.05, kFilter},
    {"en_kalman", "big", "grad.F0", 0.05, kFilter},
    {"en_kalman", "big", "grad.H", 0.1, kFilter},
    {"en_kalman", "big", "grad.Rd", 0.05, kFilter},
    {"en_kalman", "big", "grad.y", 0.05, kFilter},
    {"ko_sumsoftmax_abs", "big", "grad.y", 0.05,
     "weights that add up to 1 leave a gradient of 0: what is compared is rounding of terms that cancel"},
};

class SuiteRun {
 public:
  SuiteRun(const suite::Formula& formula, const suite::Case& item, const Setting& setting)
      : program_(with_dtype(formula.program, setting.dtype)), item_(item), single_(setting.dtype == DType::f32) {}

  /// One run gives values and gradients. The CPU runs the formula alone as well.
  void check(const std::shared_ptr<Device>& device) {
    if (device->name() == "cpu") check_values(test::run_on(device, program_, item_.dims, item_.inputs));
    std::vector<std::string> outputs, wrt;
    TensorValues inputs = item_.inputs;
    for (const auto& [name, cotangent] : item_.cotangents) {
      outputs.push_back(name);
      inputs["cot." + name] = cotangent;
    }
    for (const auto& [name, gradient] : item_.gradients) wrt.push_back(name);
    const TensorValues got = test::run_on(device, differentiate(program_, outputs, wrt), item_.dims, inputs);
    check_values(got);
    check_gradients(got);
    for (const auto& [output, jacobians] : item_.jacobians) check_jacobians(device, output, jacobians);
    if (device->name() == "cpu" && item_.name == "small" && !single_) check_tangents(device, outputs, wrt);
  }

  int compared() const { return compared_; }

 private:
  double tolerance(const std::string& tensor, double error) const {
    const double of_suite = single_ ? item_.in_single : item_.in_double;
    for (const Shortfall& shortfall : kShortfalls) {
      if (!single_ || error <= of_suite || shortfall.formula != program_.name || shortfall.size != item_.name ||
          shortfall.tensor != tensor)
        continue;
      MESSAGE(fmt::format("{} of {}, case {}, in single: error {:.2g}, {:g} is wanted and {:g} allowed: {}", tensor,
                          program_.name, item_.name, error, of_suite, shortfall.error, shortfall.why));
      return shortfall.error;
    }
    return of_suite;
  }
  void check_error(const std::string& name, double error) {
    CAPTURE(name);
    CHECK(error <= tolerance(name, error));
    ++compared_;
  }
  void check_values(const TensorValues& got) {
    for (const auto& [name, want] : item_.outputs) check_error(name, suite::error_of_output(item_, name, got.at(name)));
  }
  void check_gradients(const TensorValues& got) {
    for (const auto& [name, want] : item_.gradients)
      check_error("grad." + name, suite::error_of_gradient(item_, name, got.at("grad." + name)));
  }

  void check_jacobians(const std::shared_ptr<Device>& device, const std::string& output, const TensorValues& wanted) {
    std::vector<std::string> wrt;
    for (const auto& [input, values] : wanted) wrt.push_back(input);
    const TensorValues got = test::run_on(device, jacobian(program_, {output}, wrt), item_.dims, item_.inputs);
    for (const std::string& input : wrt) {
      const std::string name = "jac." + output + "." + input;
      check_error(name, suite::error_of_jacobian(item_, output, input, got.at(name)));
    }
  }

  /// <u, J v> against <g, v>, where g are the reference gradients.
  void check_tangents(const std::shared_ptr<Device>& device, const std::vector<std::string>& outputs,
                      const std::vector<std::string>& wrt) {
    TensorValues inputs = item_.inputs;
    double wanted = 0, found = 0, size = 0;
    for (const auto& [name, gradient] : item_.gradients) {
      std::vector<double>& direction = inputs["tan." + name];
      for (std::size_t k = 0; k < gradient.size(); ++k) {
        direction.push_back(std::cos(static_cast<double>(k)));
        wanted += gradient[k] * direction[k];
        size += std::abs(gradient[k] * direction[k]);
      }
    }
    const TensorValues got = test::run_on(device, tangents(program_, outputs, wrt), item_.dims, inputs);
    for (const auto& [name, cotangent] : item_.cotangents) {
      for (std::size_t k = 0; k < cotangent.size(); ++k) {
        const double term = cotangent[k] * got.at("tan." + name)[k];
        found += term;
        size += std::abs(term);
      }
    }
    check_error("tangents", std::abs(found - wanted) / (size == 0 ? 1 : size));
  }

  Program program_;
  const suite::Case& item_;
  bool single_;
  int compared_ = 0;
};

/// How many tensors were compared.
int check_formula(const std::filesystem::path& text, const Setting& setting, const std::shared_ptr<Device>& device) {
  int compared = 0;
  const suite::Formula formula = suite::read_formula(text);
  for (const suite::Case& item : formula.cases) {
    if (!takes_part(item, setting)) continue;
    CAPTURE(formula.program.name);
    CAPTURE(item.name);
    SuiteRun run(formula, item, setting);
    CHECK_NOTHROW(run.check(device));
    compared += run.compared();
  }
  return compared;
}

/// SUITE=all takes all formulas, else the emulators take samples. The log names the others.
std::vector<std::filesystem::path> compared_formulas(const std::filesystem::path& folder, const Setting& setting) {
  const std::vector<std::filesystem::path> formulas = suite::formulas(folder);
  if (std::getenv("SUITE") != nullptr) return formulas;
  std::vector<std::filesystem::path> sample;
  std::vector<std::string> others;
  for (std::size_t k = 0; k < formulas.size(); ++k) {
    if (test::is_sampled(setting.device, setting.dtype, k))
      sample.push_back(formulas[k]);
    else
      others.push_back(formulas[k].stem().string());
  }
  if (!others.empty()) {
    MESSAGE(fmt::format("{} in {}, to save time without (SUITE=all compares all): {}", setting.device,
                        test::precision_of(setting.dtype), fmt::join(others, ", ")));
  }
  return sample;
}

void check_folder(const std::vector<std::filesystem::path>& formulas, const Setting& setting) {
  const auto device = test::test_device(setting.device);
  if (!device) return;
  int compared = 0, count = 0;
  for (const std::filesystem::path& text : formulas) {
    if (!takes_part(text)) continue;
    const int of_one = check_formula(text, setting, device);
    CAPTURE(text);
    CHECK(of_one > 0);
    compared += of_one;
    ++count;
  }
  CHECK(count > 0);
  MESSAGE(fmt::format("{} in {}: {} tensors of {} formulas compared", setting.device, test::precision_of(setting.dtype),
                      compared, count));
}

constexpr Setting kSettings[] = {{"interp", DType::f64}, {"interp", DType::f32},   {"cpu", DType::f64},
                                 {"cpu", DType::f32},    {"cuda-emu", DType::f64}, {"cuda-emu", DType::f32},
                                 {"cuda", DType::f64},   {"cuda", DType::f32}};

/// The whole suite, which lies beside the project.
void check_shared(const Setting& setting) {
  const std::filesystem::path folder = std::filesystem::path(MOXIE_SHARED_DIR) / "suite";
  if (std::filesystem::is_directory(folder))
    check_folder(compared_formulas(folder, setting), setting);
  else
    test::skip("there is no " + folder.string());
}

TEST_CASE("kept") {
  for (const Setting& setting : kSettings) check_folder(suite::formulas(MOXIE_SUITE_DIR), setting);
}
TEST_CASE("adbench") {
  for (const Setting& setting : kSettings) check_folder(suite::formulas(MOXIE_ADBENCH_DIR), setting);
}
TEST_CASE("interp_double") { check_shared({"interp", DType::f64}); }
TEST_CASE("interp_single") { check_shared({"interp", DType::f32}); }
TEST_CASE("cpu_double") { check_shared({"cpu", DType::f64}); }
TEST_CASE("cpu_single") { check_shared({"cpu", DType::f32}); }
TEST_CASE("emu_double") { check_shared({"cuda-emu", DType::f64}); }
TEST_CASE("emu_single") { check_shared({"cuda-emu", DType::f32}); }
TEST_CASE("cuda_double") { check_shared({"cuda", DType::f64}); }
TEST_CASE("cuda_single") { check_shared({"cuda", DType::f32}); }

}  // namespace
