// A declared dtype is a promise: what a device computes is as exact as evaluate() is when it rounds as declared.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/cpu/plugin.h"
#include "runtime/session.h"
#include "tests/property/check.h"
#include "tests/property/device_run.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// In double: what reassociation may cost.
constexpr double kDoubleTolerance = 1e-10;
/// Orders of operations that were not drawn may round this much more than those that were.
constexpr double kRoundingFactor = 64;
constexpr std::uint64_t kDraws = 4;

/// Rounds to single as another order of operations might: up or down by about half a unit in the last place. Whole
/// numbers, exponents among them, are exact in any order.
Rounding drawn_rounding(std::uint64_t draw) {
  auto count = std::make_shared<std::uint64_t>(0);
  return [=](double value, DType dtype) {
    if (dtype == DType::f64 || value == std::nearbyint(value)) return value;
    const auto bits = ((*count)++ * 0x9E3779B97F4A7C15ULL) ^ (draw * 0xD1B54A32D192ED03ULL);
    const double uniform = static_cast<double>(bits >> 11) * 0x1p-53;
    return rounded(value * (1 + (2 * uniform - 1) * 0x1p-23), dtype);
  };
}

double distance(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)) ? 0 : std::abs(a - b); }

/// The largest distance between two values of a tensor; infinite where one of them is no number.
double largest_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double d = distance(a[k], b[k]);
    largest = std::isnan(d) ? HUGE_VAL : std::max(largest, d);
  }
  return largest;
}

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// The rounding errors of single precision that the declared dtypes admit, by tensor: none where all that leads to it
/// is declared double.
std::map<std::string, double> admitted_errors(const Reference& want, const DimValues& dims) {
  std::map<std::string, double> errors;
  for (std::uint64_t draw = 1; draw <= kDraws; ++draw) {
    const TensorValues values = evaluate(want.program, dims, want.inputs, 0, 0, drawn_rounding(draw));
    for (const auto& [name, wanted] : want.values)
      errors[name] = std::max(errors[name], largest_distance(values.at(name), wanted));
  }
  return errors;
}

Finding keeps_dtypes(const std::shared_ptr<Device>& device, const std::optional<Reference>& want,
                     const DimValues& dims) {
  if (!want) return std::nullopt;
  const auto errors = admitted_errors(*want, dims);
  const auto got = run(device, want->program, dims, want->inputs);
  for (const auto& [name, values] : got) {
    const std::vector<double>& wanted = want->values.at(name);
    const double magnitude = largest_magnitude(wanted);
    const double result = want->program.dtype_of(name) == DType::f32 ? 0x1p-23 * magnitude : 0;
    const double allowed = kDoubleTolerance * (1 + magnitude) + result + kRoundingFactor * errors.at(name);
    const double found = largest_distance(values, wanted);
    if (found > allowed)
      return fmt::format("{} on {} is off by {}, but its declared dtypes admit {}", name, device->name(), found,
                         allowed);
  }
  return std::nullopt;
}

/// Both dtypes in one Program, whatever its default is.
Sample mixed(Sample sample) {
  bool other = sample.seed % 2 == 0;
  for (Definition& definition : sample.program.definitions) {
    if (definition.scan) continue;
    definition.dtype = (other = !other) ? DType::f32 : DType::f64;
  }
  return sample;
}

void check_text(const std::string& text, DimValues dims) {
  const Program program = parse(text);
  for (const DimDecl& dim : program.dims) {
    if (dim.value) dims[dim.name] = *dim.value;
  }
  const Sample sample{1, program, dims};
  for (const char* name : {"interp", "cpu"}) {
    const auto device = open_device(name, {1, "0"});
    const auto finding = keeps_dtypes(device, reference(sample), dims);
    CHECK_MESSAGE(!finding, finding.value_or(""));
    const auto of_gradient = keeps_dtypes(device, gradient_reference(sample), dims);
    CHECK_MESSAGE(!of_gradient, of_gradient.value_or(""));
  }
}

}  // namespace

TEST_CASE("values are as exact as the declared dtypes") {
  const auto device = open_device("cpu", {1, "0"});
  check_property(60, [&](const Sample& sample) -> Finding {
    const Sample both = mixed(sample);
    return keeps_dtypes(device, reference(both, 1e-5, 1e-4), both.dims);
  });
}

TEST_CASE("gradients are as exact as the declared dtypes") {
  const auto device = open_device("cpu", {1, "0"});
  check_property(20, [&](const Sample& sample) -> Finding {
    const Sample both = mixed(sample);
    return keeps_dtypes(device, gradient_reference(both, 1e-5, 1e-4), both.dims);
  });
}

TEST_CASE("long sums of single elements that are declared double are summed in double") {
  check_text(
      "dim S dynamic, N = 3\nindex s:S, n:N\ninput x[S,N]\nlet t[n]: f64 = sum[s](x[s,n])\noutput y[n]: f64 = "
      "t[n]*t[n]\n",
      {{"S", 300}});
  check_text("dim S dynamic\nindex s:S\ninput x[S]\noutput m: f64 = sum[s](f64(x[s])*f64(x[s]))/S\n", {{"S", 1000}});
  check_text(
      "dim S dynamic, N = 4\nindex s:S, n:N, m:N\ninput x[S,N]\nlet c[n,m]: f64 = sum[s](x[s,n]*x[s,m])\n"
      "output d: f64 = sum[n](c[n,n]) + sum[n,m](c[n,m])\n",
      {{"S", 200}});
  check_text(
      "dim S dynamic, N = 100\nindex s:S, n:N\ninput x[S,N]\nlet t[n]: f64 = sum[s](x[s,n])\noutput y[s]: f64 = "
      "sum[n](t[n]*x[s,n])\n",
      {{"S", 200}});
}

TEST_CASE("a part that the text gives in single is computed in single") {
  const Program program = parse("dim S dynamic\nindex s:S\ninput x[S]\noutput m: f64 = f32(sum[s](x[s]*x[s]))/S\n");
  const Plan plan = make_plan(specialise(program, {}));
  const Definition* sum = plan.fused.program.find_definition("m.sum");
  REQUIRE(sum);
  CHECK(sum->dtype == DType::f32);
}
