// Instrumented kernels: the first bad value is named with its tensor, its place and its value, on every device.
#include "compiler/loop/instrument.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/loop/interpreter.h"
#include "compiler/support/error.h"
#include "runtime/device.h"
#include "runtime/host_tensor.h"
#include "tests/devices.h"
#include "tests/loop/sample_programs.h"

using namespace moxie;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Values = std::map<std::string, std::vector<double>>;

/// The outputs of a program that checks what it computes, or what the checks say.
struct Outcome {
  Values outputs;
  std::string error;
};

/// The tensors of a plan where a device works with them.
class Tensors {
 public:
  Tensors(Device& device, const Plan& plan, const DimValues& dims, const Values& inputs) {
    const auto add = [&](const std::string& name) -> Buffer& {
      Buffer& buffer = *(buffers_[name] = device.make_buffer());
      buffer.resize(sizeof(double) * static_cast<std::size_t>(element_count(extents_of(plan.program, name, dims))));
      return buffer;
    };
    for (const auto& [name, values] : inputs)
      std::memcpy(add(name).write().data(), values.data(), sizeof(double) * values.size());
    for (const Definition& definition : plan.program.definitions) {
      if (definition.output) add(definition.name), outputs_.push_back(definition.name);
    }
    for (const auto& [name, buffer] : buffers_)
      addresses_[name] = inputs.contains(name) ? buffer->kernel_input() : buffer->kernel_output();
  }

  void* address(const std::string& name) const { return addresses_.at(name); }
  Values outputs() const {
    Values values;
    for (const std::string& name : outputs_) {
      const auto bytes = buffers_.at(name)->read();
      values[name].resize(bytes.size() / sizeof(double));
      std::memcpy(values[name].data(), bytes.data(), bytes.size());
    }
    return values;
  }

 private:
  std::map<std::string, std::unique_ptr<Buffer>> buffers_;
  std::map<std::string, void*> addresses_;
  std::vector<std::string> outputs_;
};

Outcome run(const std::string& text, const DimValues& dims, const Values& inputs, const Checks& checks,
            Device& device) {
  const Program program = with_dtype(parse(text), DType::f64);
  DimValues fixed;
  for (const DimDecl& dim : program.dims) {
    if (!dim.dynamic) fixed[dim.name] = dims.at(dim.name);
  }
  const auto plan = std::make_shared<const Plan>(make_plan(specialise(program, fixed), checks));
  const Tensors tensors(device, *plan, dims, inputs);
  const auto executable = device.prepare(plan, dims);
  try {
    executable->run([&](const std::string& name) { return tensors.address(name); }, 1, 0);
    device.wait();
    return {tensors.outputs(), ""};
  } catch (const DeviceError& error) {
    return {{}, error.what()};
  }
}

void check_message(const std::string& text, const DimValues& dims, const Values& inputs, const Checks& checks,
                   const std::string& message) {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CHECK(run(text, dims, inputs, checks, *device).error == message);
  }
}

const Checks kNan = {true, false, false};
const Checks kNegvar = {false, true, false};
const Checks kBounds = {false, false, true};
const Checks kAll = {true, true, true};

}  // namespace

TEST_CASE("the first value that is not finite is named") {
  const std::string text =
      "dim S dynamic, N\nindex s:S, n:N\ninput x[S,N]\noutput y[s,n] = sqrt(x[s,n])\noutput z[s] = sum[n](y[s,n])\n";
  check_message(text, {{"S", 2}, {"N", 3}}, {{"x", {1, 4, 9, 1, -1, -2}}}, kNan,
                "y is not finite at s = 1, n = 1 (value nan); it is computed as sqrt(x[s,n])");
  check_message(text, {{"S", 1}, {"N", 1}}, {{"x", {kNaN}}}, kNan,
                "x is not finite at s = 0, n = 0 (value nan); it is an input");
  check_message("input x\noutput y = exp(x)\n", {}, {{"x", {1000}}}, kNan,
                "y is not finite (value inf); it is computed as exp(x)");
}

TEST_CASE("a sum in parts is checked when it is whole") {
  const std::string text = "dim S dynamic\nindex s:S\ninput x[S]\noutput var >= 0 = sum[s](x[s])\n";
  Values inputs = {{"x", std::vector<double>(1000, 1)}};
  inputs["x"][0] = -500;  // its part of the sum is negative, the sum is not
  check_message(text, {{"S", 1000}}, inputs, kNegvar, "");
  inputs["x"][0] = -1000;
  check_message(text, {{"S", 1000}}, inputs, kNegvar, "var is not >= 0 (value -1); it is computed as sum[s](x[s])");
}

TEST_CASE("a library's product is checked behind it") {
  const std::string text =
      "dim S dynamic, N dynamic, K dynamic\nindex s:S, n:N, k:K\ninput a[S,K], b[K,N]\n"
      "output y[s,n] = sum[k](a[s,k]*b[k,n])\n";
  check_message(text, {{"S", 1}, {"N", 2}, {"K", 2}}, {{"a", {1e300, 1e300}}, {"b", {1, 1e10, 1, 1e10}}}, kNan,
                "y is not finite at s = 0, n = 1 (value inf); it is computed as sum[k](b[k,n]*a[s,k])");
}

TEST_CASE("of a covariance only the diagonal must not be negative: a definition that nothing reads says so") {
  const std::string text =
      "dim S dynamic, N\nindex s:S, n:N, m:N\ninput x[S,N,N]\noutput Sigma[s,n,m] = 2*x[s,n,m]\n"
      "let variance[s,n] >= 0 = Sigma[s,n,n]\n";
  check_message(text, {{"S", 1}, {"N", 2}}, {{"x", {1, -5, -5, 1}}}, kNegvar, "");
  check_message(text, {{"S", 2}, {"N", 2}}, {{"x", {1, -5, -5, 1, 1, 1, 1, -3}}}, kNegvar,
                "variance is not >= 0 at s = 1, n = 1 (value -6); it is computed as 2*x[s,n,n]");
}

TEST_CASE("names promise nothing") {
  check_message("input x\noutput h_m = x\noutput h_s = -x\noutput variance = -x\n", {}, {{"x", {1}}}, kNegvar, "");
}

TEST_CASE("definitions that would not be kept in memory are checked too") {
  const std::string text =
      "dim S dynamic\nindex s:S\ninput x[S]\nlet v[s] >= 0 = x[s] - 1\noutput y = sum[s](sin(v[s]))\n";
  check_message(text, {{"S", 2}}, {{"x", {1, 2}}}, kNegvar, "");
  check_message(text, {{"S", 2}}, {{"x", {1, 0.5}}}, kNegvar,
                "v is not >= 0 at s = 1 (value -0.5); it is computed as x[s] + -1");
  check_message(text, {{"S", 2}}, {{"x", {1, kNaN}}}, kNegvar,
                "v is not >= 0 at s = 1 (value nan); it is computed as x[s] + -1");
  check_message(text, {{"S", 2}}, {{"x", {1, 0.5}}}, {}, "");
}

TEST_CASE("what a recurrence recomputes is checked at every step") {
  const std::string text =
      "dim T dynamic, N\nindex t:T, n:N\ninput x[T,N]\nscan t {\n"
      "  recompute p[t,n] < 3 = where(t == 0, 0, h[t-1,n])\n  let h[t,n] >= 0 = p[t,n] + x[t,n]\n}\n"
      "output y[n] = sum[t](h[t,n])\n";
  check_message(text, {{"T", 3}, {"N", 1}}, {{"x", {1, 1, 1}}}, kNegvar, "");
  check_message(text, {{"T", 3}, {"N", 1}}, {{"x", {1, 1, -3}}}, kNegvar,
                "h is not >= 0 at t = 2, n = 0 (value -1); it is computed as x[t,n] + where(t == 0, 0, h[t-1,n])");
  check_message(text, {{"T", 3}, {"N", 1}}, {{"x", {1, 2, 1}}}, kNegvar,
                "p is not < 3 at t = 2, n = 0 (value 3); it is computed as where(t == 0, 0, h[t-1,n])");
}

TEST_CASE("inputs keep what they are declared to be") {
  const std::string text = "dim N\nindex n:N\ninput x[N] > 0, w[N] >= 0, b[N] < 0\noutput y[n] = x[n]*w[n] + b[n]\n";
  check_message(text, {{"N", 2}}, {{"x", {1, 1}}, {"w", {0, 0}}, {"b", {-1, -1}}}, kNegvar, "");
  check_message(text, {{"N", 2}}, {{"x", {1, 0}}, {"w", {0, 0}}, {"b", {-1, -1}}}, kNegvar,
                "x is not > 0 at n = 1 (value 0); it is an input");
  check_message(text, {{"N", 2}}, {{"x", {1, 1}}, {"w", {0, 0}}, {"b", {-1, 0}}}, kNegvar,
                "b is not < 0 at n = 1 (value 0); it is an input");
  const std::string both = "dim N\nindex n:N\ninput p[N] >= 0 and < 1\noutput y[n] = p[n]\n";
  check_message(both, {{"N", 3}}, {{"p", {0, 0.5, 1}}}, kNegvar,
                "p is not >= 0 and < 1 at n = 2 (value 1); it is an input");
  check_message(both, {{"N", 3}}, {{"p", {0, -0.5, 0.5}}}, kNegvar,
                "p is not >= 0 and < 1 at n = 1 (value -0.5); it is an input");
}

TEST_CASE("a recurrence is checked at every step") {
  check_message(
      "dim T dynamic, N\nindex t:T, n:N\ninput x[T,N]\nscan t {\n"
      "  output h[t,n] = log(x[t,n] + where(t >= 1, h[t-1,n], 0))\n}\n",
      {{"T", 3}, {"N", 1}}, {{"x", {1, 2, -9}}}, kNan,
      "h is not finite at t = 2, n = 0 (value nan); it is computed as log(x[t,n] + where(t >= 1, h[t-1,n], 0))");
  // What does not wait for the steps is computed, and checked, before them.
  check_message(
      "dim T dynamic, N\nindex t:T, n:N\ninput x[T,N]\nscan t {\n"
      "  output h[t,n] = where(t >= 1, h[t-1,n], 0) + log(x[t,n])\n}\n",
      {{"T", 3}, {"N", 1}}, {{"x", {1, 2, -1}}}, kNan,
      "h.ahead is not finite at t = 2, n = 0 (value nan); it is computed as log(x[t,n])");
}

TEST_CASE("at every step of a recurrence, what a library or chunks of a sum gave is checked before it is used") {
  check_message(
      "dim T dynamic, S dynamic, N\nindex t:T, s:S, n:N, k:N\ninput h0[S,N], W[N,N]\nscan t {\n"
      "  output h[t,s,n] = sum[k](W[n,k]*where(t == 0, h0[s,k], (2 + cos(h[t-1,s,k]))*1e200))\n}\n",
      {{"T", 3}, {"S", 1}, {"N", 96}}, {{"h0", std::vector<double>(96, 1)}, {"W", std::vector<double>(96 * 96, 1e200)}},
      kNan, "h is not finite at t = 1, s = 0, n = 0 (value inf); it is computed as sum[k](h.operand[t,s,k]*W[n,k])");
  check_message(
      "dim T dynamic, S dynamic\nindex t:T, s:S\ninput x[S]\nscan t {\n"
      "  output m[t] = sum[s](log(x[s] - where(t == 0, 0, m[t-1])))\n}\n",
      {{"T", 3}, {"S", 200}}, {{"x", std::vector<double>(200, 2)}}, kNan,
      "m is not finite at t = 1 (value nan); it is computed as sum[s](log(x[s] - where(t == 0, 0, m[t-1])))");
}

TEST_CASE("checks change nothing of what is computed, but for the rounding of products that no longer join a sum") {
  const std::string text =
      "dim S dynamic, N\nindex s:S, n:N, m:N\ninput x[S,N]\n"
      "let K[n,m] = where(n == m, 4, 0) + sum[s](x[s,n]*x[s,m])/100\n"
      "let k[n,m] = inverse[n,m](K[n,m])\noutput y[s,n] = exp(-sum[m](k[n,m]*x[s,m]^2))\n"
      "output z[n] = sum[s](where(s >= 1, x[s-1,n], 0)*y[s,n])\n";
  std::vector<double> x;
  for (int i = 0; i < 999; ++i) x.push_back(std::sin(i));
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const Outcome plain = run(text, {{"S", 333}, {"N", 3}}, {{"x", x}}, {}, *device);
    const Outcome checked = run(text, {{"S", 333}, {"N", 3}}, {{"x", x}}, kAll, *device);
    CHECK(checked.error.empty());
    for (const auto& [name, values] : plain.outputs) {
      for (std::size_t i = 0; i < values.size(); ++i)
        CHECK(checked.outputs.at(name)[i] == doctest::Approx(values[i]).epsilon(1e-13));
    }
  }
}

TEST_CASE("a subscript outside its tensor is named, and nothing is read there") {
  samples::Builder b;
  b.program.name = "shifted";
  b.program.arguments = {"N"};
  const Affine i = samples::i0(), n = Symbol::dim("N");
  b.program.buffers = {samples::input("x", {n}), samples::output("y", {n})};
  Block block;
  block.push_back(stmt::Store{1, {i}, b.let(block, op::Load{0, {i + Affine(1)}, {}})});
  b.program.body = {samples::loop(samples::i0(), Range::extent(n), block, "i")};
  LoweredKernel kernel;
  kernel.program = b.program;
  kernel.uses = {{"x", false, {}}, {"y", true, {}}};
  const LoopProgram checked = instrument(kernel, Program(), kBounds).program;

  std::vector<double> x = {1, 2, 3}, y(3, -1);
  const std::vector<std::span<double>> buffers = {x, y};
  const std::vector<std::int64_t> arguments = {3};
  const KernelStatus status = interpret(checked, buffers, arguments);
  REQUIRE(status.failed == 1);
  const CheckDecl& check = checked.checks.at(static_cast<std::size_t>(status.check));
  CHECK(check.message == "x: subscript 0 lies outside the tensor");
  CHECK(check.advice == "the extent of this axis is N");
  CHECK(status.coordinates[0] == 3);
  CHECK(y == std::vector<double>{2, 3, 0});
}

TEST_CASE("a failed factorisation says what helps") {
  check_message("dim N\nindex n:N, m:N\ninput a[N,N]\noutput l[n,m] = cholesky[n,m](a[n,m])\n", {{"N", 2}},
                {{"a", {1, 0, 0, -1}}}, {},
                "l: the matrix is not positive definite at pivot = 1 (value -1); add to its diagonal (noise or "
                "jitter), or compute it in f64");
}

TEST_CASE("an unknown check is refused with the known ones") {
  const std::vector<std::string> names = {"nan", "bounds"};
  CHECK(checks_named(names) == Checks{true, false, true});
  const std::vector<std::string> wrong = {"inf"};
  CHECK_THROWS_WITH_AS(checks_named(wrong), "there is no check 'inf'; choose from: nan, negvar, bounds", TypeError);
}
