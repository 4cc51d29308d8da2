// Steps that depend on no input run once, on every device: later runs read what the first left.
#include "runtime/constant_steps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/session.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

/// Transforms there and back: two products with tables, and between them tensors that come and go.
constexpr const char* kTransform = R"(
dim B dynamic, N
index b:B, n:N, k:N
input x[B,N]
let c[b,k] = sum[n](x[b,n]*cos(pi*(2*n+1)*k/(2*N)))
let d[b,k] = c[b,k]/(1 + c[b,k]^2)
output y[b,n] = sum[k](d[b,k]*cos(pi*(2*n+1)*k/(2*N)))
)";

std::vector<double> waves(std::size_t count, double phase) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(0.7 * static_cast<double>(i) + phase));
  return values;
}

std::vector<double> transformed(const std::vector<double>& x, std::size_t rows, std::size_t size) {
  const auto table = [&](std::size_t n, std::size_t k) {
    return std::cos(std::numbers::pi * static_cast<double>((2 * n + 1) * k) / (2 * static_cast<double>(size)));
  };
  std::vector<double> y(rows * size);
  for (std::size_t b = 0; b < rows; ++b) {
    for (std::size_t k = 0; k < size; ++k) {
      double c = 0;
      for (std::size_t n = 0; n < size; ++n) c += x[b * size + n] * table(n, k);
      for (std::size_t n = 0; n < size; ++n) y[b * size + n] += c / (1 + c * c) * table(n, k);
    }
  }
  return y;
}

std::ptrdiff_t count_constants(const Program& program, const DimValues& dims, const Device& device) {
  PlanTarget target = device.plan_target(program);
  target.extents = dims;
  const Program sized = specialise_all(program, {{"N", dims.at("N")}});
  const std::vector<bool> constant = constant_steps(make_plan(sized, {}, target));
  return std::ranges::count(constant, true);
}

/// Counts launches of kernels.
class LaunchCounter : public LaunchObserver {
 public:
  void before(const LoweredKernel&, const Plan&, std::span<void* const>, std::span<const std::int64_t>) override {}
  void after(const LoweredKernel&) override { ++launches; }
  int launches = 0;
};

}  // namespace

TEST_CASE("runs after the first read the tables that it left, for every batch size") {
  const Program program = with_dtype(parse(kTransform), DType::f64);
  const std::size_t size = 96;
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {{"N", 96}}, device);
    for (const std::size_t rows : {40, 40, 64, 40}) {
      const std::vector<double> x = waves(rows * size, static_cast<double>(session.step()));
      const std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(size)};
      session.set("x", make_host_tensor(DType::f64, shape, x));
      session.run();
      const std::vector<double> found = to_doubles(session.get("y")), expected = transformed(x, rows, size);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i]) < 1e-9 * size);
    }
  }
}

TEST_CASE("tables are constant, and what an input, a random number or a check takes part in is not") {
  const auto device = test::test_device("cpu");
  if (!device) return;
  const DimValues dims{{"B", 64}, {"N", 96}};
  CHECK(count_constants(parse(kTransform), dims, *device) > 0);
  const std::string from_input = "dim B dynamic, N\nindex b:B, n:N\ninput x[B,N]\noutput y[b] = sum[n](x[b,n]^2)\n";
  CHECK(count_constants(parse(from_input), dims, *device) == 0);
  const std::string is_output = "dim B dynamic, N\nindex b:B, n:N\ninput x[B]\noutput y[b,n] = cos(b*n)\n";
  CHECK(count_constants(parse(is_output), dims, *device) == 0);
  const std::string draws =
      "dim B dynamic, N\nindex b:B, n:N, k:N\ninput x[B,N]\nlet r[n,k] = randn(0)\n"
      "output y[b,k] = sum[n](x[b,n]*r[n,k])\n";
  CHECK(count_constants(parse(draws), dims, *device) == 0);
}

TEST_CASE("a kernel that computes a table is launched once") {
  const auto counter = std::make_shared<LaunchCounter>();
  DeviceOptions options;
  options.observer = counter;
  const auto device = test::test_device("cpu", options);
  if (!device) return;
  Session session(parse(kTransform), {{"N", 96}}, device);
  session.resize("x", {64, 96});
  session.run();
  const int first = counter->launches;
  session.run();
  CHECK(counter->launches - first < first);
}
