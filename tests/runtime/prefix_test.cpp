// Prefix reductions take one pass: which definitions are some, and their values on every device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/fuse/fuse.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/prefix_reduction.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

/// Definitions that are computed in one pass, those that blocks need included.
std::size_t count_passes(const Program& program) {
  std::size_t count = 0;
  const FusedProgram fused = fuse(optimise(program));
  for (const Step& step : fused.steps) {
    for (const Kernel* kernel : kernels_of(step)) count += kernel->roots.front().prefix ? 1 : 0;
  }
  return count;
}

/// The largest difference of two tensors, relative to the largest magnitude; equal infinities differ by nothing.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0, largest = 1;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] == b[k]) continue;
    worst = std::max(worst, std::isfinite(a[k] - b[k]) ? std::abs(a[k] - b[k]) : HUGE_VAL);
    largest = std::max(largest, std::abs(b[k]));
  }
  return worst / largest;
}

void check_values(const Program& program, const DimValues& dims) {
  const TensorValues inputs = test::wave_inputs(program, dims);
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    for (const auto& [name, values] : test::run_on(device, program, dims, inputs)) {
      CAPTURE(name);
      CHECK(distance(values, expected.at(name)) <= 1e-5);
    }
  }
}

struct Case {
  const char* text;
  std::size_t passes;
};

const Case kForms[] = {
    {"output y[i] = sum[j in 0..i+1](x[j])", 1},
    {"output y[i] = sum[j in 0..i](x[j])", 1},
    {"output y[i] = sum[j in i..N](x[j])", 1},
    {"output y[i] = sum[j in i+1..N](x[j])", 1},
    {"output y[i] = sum[j in 0..N-i](x[j])", 1},
    {"output y[i] = sum[j in N-1-i..N](x[j])", 1},
    {"output y[i] = max[j in 0..i+1](x[j])", 1},
    {"output y[i] = min[j in i..N](x[j])", 1},
    {"output y[i] = prod[j in 0..i](1 + x[j]/N)", 1},
    {"output y[i] = sum[j in 5..i+3](where(j < N, x[j], 0))", 1},
    {"output y[i] = sum[j in 7..min(i+4, N-9)](x[j])", 1},
    {"output y[i] = sum[j in max(i-20, 3)..N](x[j])", 1},
    {"output y[i] = x[i]/(2*N + sum[j in 0..i+1](x[j])) + sum[j in i..N](x[j]^2)", 2},
    {"output y[i] = sum[j in 0..i+1](exp(x[j])*tanh(x[j]))", 1},
    {"output y[i,d] = sum[j in 0..i+1](x[j]*z[j,d])", 1},
    {"output y[d,i] = sum[j in i..N](x[j]*z[j,d])", 1},
    {"output y[i,k] = sum[j in 0..i+1, l in 0..k+1](w[j,l])", 2},
    {"output y[i] = sum[j in 0..i+1, d](x[j]*z[j,d])", 1},
    {"output y[i] = sum[d, j in 0..i+1](x[j]*z[j,d])", 1},
    {"output y[i] = sum[j in 0..2*i+2](where(j < N, x[j], 0))", 1},
    {"output y[i] = sum[j in 0..i+1](f64(x[j]))", 1},
    {"output y[i]: f64 = sum[j in 0..i+1](f32(-x[j]))", 1},  // two registers for the lanes of one
    {"let a[i] = -(sum[k](w[i,k])*x[i])\noutput y[i] = sum[j in 0..i+1](a[j]*x[j])", 1},
    // One element for each index is not all that the range gains, or the body depends on the axis.
    {"output y[i] = sum[j in max(i-5,0)..i+1](x[j])", 0},
    {"output y[i] = sum[j in 0..i+1](exp(x[i]*x[j]))", 0},
    {"output y[i] = logsumexp[j in 0..i+1](x[j])", 1},  // its maximum
};

constexpr const char* kHead = "dim N, D = 20\nindex i:N, k:N, d:D\ninput x[N], z[N,D], w[N,N]\n";

}  // namespace

TEST_CASE("reductions over growing and shrinking ranges take one pass, with the evaluator's values") {
  for (const Case& form : kForms) {
    CAPTURE(std::string(form.text));
    const Program formula = parse(std::string(kHead) + form.text + "\n");
    const DimValues dims = {{"N", 100}};
    const Program program = specialise(formula, dims);
    CHECK(count_passes(program) == form.passes);
    check_values(program, dims);
  }
}

TEST_CASE("a log-sum-exp over a prefix is a running maximum and a recurrence, for numbers of any size") {
  for (const char* range : {"0..i+1", "i..N", "0..i", "3..i+1"}) {
    const std::string text = std::string("dim N = 200\nindex i:N, j:N\ninput x[N]\noutput y[i] = logsumexp[j in ") +
                             range + "](1e4*x[j] + where(j == 7, log(0), 0))\n";
    CAPTURE(text);
    const Program program = parse(text);
    const Program optimised = optimise(program);
    CHECK(std::ranges::count_if(optimised.definitions, [](const Definition& d) { return d.scan.has_value(); }) == 1);
    CHECK(std::ranges::none_of(optimised.definitions, [](const Definition& d) {
      return d.body->kind == NodeKind::Reduce && d.body->reduce == ReduceKind::Sum;
    }));
    check_values(program, {{"N", 200}});
  }
}

namespace {

/// Causal attention without a softmax: the sums over words so far stand in the sums over features, or in a scan.
constexpr const char* kOfPrefixes = R"(dim T, D
index t:T, d:D, e:D
input q[T,D], k[T,D], v[T,D]
output y[t,e] = sum[d](q[t,d]*sum[s in 0..t+1](k[s,d]*v[s,e]))
)";
constexpr const char* kOfSteps = R"(dim T, D
index t:T, d:D, e:D
input q[T,D], k[T,D], v[T,D]
scan t {
  let state[t,d,e] = where(t == 0, 0, state[t-1,d,e]) + k[t,d]*v[t,e]
}
output y[t,e] = sum[d](q[t,d]*state[t,d,e])
)";

Program with_gradients(const char* text, const DimValues& dims) {
  return differentiate(specialise(parse(text), dims), {"y"}, {"q", "k", "v"});
}

}  // namespace

TEST_CASE("products of all pairs of positions take the place of prefix sums for many pairs of features") {
  const Program program = with_gradients(kOfPrefixes, {{"T", 256}, {"D", 32}});
  CHECK(count_passes(program) == 0);
  CHECK(count_passes(with_gradients(kOfPrefixes, {{"T", 4096}, {"D", 8}})) == 2);
  std::string in_double = kOfPrefixes;  // the prefix sum stays, and stays a double
  in_double.replace(in_double.find("output"), std::string::npos,
                    "let p[t,d,e]: f64 = sum[s in 0..t+1](k[s,d]*v[s,e])\noutput y[t,e] = sum[d](q[t,d]*p[t,d,e])\n");
  CHECK(count_passes(specialise(parse(in_double), {{"T", 256}, {"D", 32}})) == 1);
  const Program steps = with_gradients(kOfSteps, {{"T", 256}, {"D", 32}});
  const TensorValues inputs = test::wave_inputs(program, {});
  for (const char* name : {"cpu", "cuda-emu"}) {
    CAPTURE(name);
    const auto device = test::test_device(name);
    if (!device) continue;
    const TensorValues expected = test::run_on(device, steps, {}, inputs);
    for (const auto& [tensor, values] : test::run_on(device, program, {}, inputs)) {
      CAPTURE(tensor);
      CHECK(distance(values, expected.at(tensor)) <= 1e-5);
    }
  }
}

TEST_CASE("short axes are left to the loops of other kernels") {
  const Program formula = parse("dim N\nindex i:N\ninput x[N]\noutput y[i] = sum[j in 0..i+1](x[j])\n");
  CHECK(count_passes(specialise(formula, {{"N", 63}})) == 0);
  CHECK(count_passes(specialise(formula, {{"N", 64}})) == 1);
}

TEST_CASE("a scan has its lanes along itself, or along another axis that lies fastest in memory") {
  const auto kernel_of = [](const char* text) {
    const Plan plan = make_plan(specialise(parse(text), {}));
    return std::get<LoweredKernel>(plan.steps.back());
  };
  const auto shuffles = [](const LoopProgram& program) {
    return std::ranges::any_of(
        program.values, [](const Value& value) { return std::holds_alternative<op::PrefixLanes>(value.operation); });
  };
  const LoweredKernel row = kernel_of("dim N = 500\nindex i:N\ninput x[N]\noutput y[i] = sum[j in 0..i+1](x[j])\n");
  CHECK(shuffles(row.program));
  REQUIRE(row.threads);
  CHECK_FALSE(shuffles(row.threads->program));
  const LoweredKernel columns =
      kernel_of("dim N = 500, D = 64\nindex i:N, d:D\ninput x[N,D]\noutput y[i,d] = sum[j in 0..i+1](x[j,d])\n");
  CHECK_FALSE(shuffles(columns.program));
}

TEST_CASE("long prefix sums and their gradients run in blocks, with the same bits on any number of threads") {
  constexpr std::int64_t kLength = 20000;
  const Program sums = parse(
      "dim N\nindex i:N\ninput x[N]: f64\noutput y[i]: f64 = sum[j in 0..i+1](x[j])\n"
      "output e: f64 = sum[i](y[i]^2)/N^3\n");
  const Program program = specialise(differentiate(sums, {"e"}, {"x"}), {{"N", kLength}});
  CHECK(count_passes(program) >= 4);
  TensorValues inputs = test::wave_inputs(program, {});
  inputs["cot.e"] = {1};
  std::vector<double> prefix(kLength), suffix(kLength);
  double sum = 0;
  for (std::size_t i = 0; i < kLength; ++i) prefix[i] = sum += inputs["x"][i];
  sum = 0;
  for (std::size_t i = kLength; i-- > 0;) suffix[i] = sum += 2 * prefix[i] / std::pow(kLength, 3);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues values = test::run_on(device, program, {}, inputs);
    CHECK(distance(values.at("y"), prefix) <= 1e-12);
    CHECK(distance(values.at("grad.x"), suffix) <= 1e-12);
  }
  const auto on_threads = [&](int threads) {
    return test::run_on(open_device("cpu", {.threads = threads, .cache_directory = "0"}), program, {}, inputs);
  };
  CHECK(on_threads(1) == on_threads(3));
}

TEST_CASE("blocks of an axis whose extent is not known when compiling") {
  const char* text = "dim N dynamic, D = 3\nindex i:N, d:D\ninput x[N,D]\noutput y[d,i] = sum[j in i..N](x[j,d])\n";
  const Program program = specialise(parse(text), {});
  for (const std::int64_t extent : {0, 1, 1023, 1024, 3000}) {
    CAPTURE(extent);
    const DimValues dims = {{"N", extent}};
    const TensorValues inputs = test::wave_inputs(program, dims);
    std::vector<double> want(static_cast<std::size_t>(3 * extent));
    for (std::int64_t d = 0; d < 3; ++d) {
      double sum = 0;
      for (std::int64_t i = extent; i-- > 0;)
        want[static_cast<std::size_t>(d * extent + i)] = sum += inputs.at("x")[static_cast<std::size_t>(i * 3 + d)];
    }
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      CHECK(distance(test::run_on(device, program, dims, inputs).at("y"), want) <= 1e-5);
    }
  }
}
