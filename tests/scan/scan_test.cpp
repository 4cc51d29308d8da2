// Scans: the language, derivatives and every device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/scan/recurrences.h"

namespace {

using namespace moxie;
using namespace moxie::test;

Program gradient_of(const Program& program) {
  return with_dtype(differentiate(program, outputs_of(program), {}), DType::f64);
}

void set_inputs(Session& session, const Program& program, const DimValues& dims, const TensorValues& inputs) {
  for (const InputDecl& input : program.inputs) {
    session.set(input.name,
                make_host_tensor(input.dtype, extents_of(program, input.name, dims), inputs.at(input.name)));
  }
}

Session open_session(const Program& program, std::int64_t units, const std::shared_ptr<Device>& device) {
  DimValues fixed;
  if (program.find_dim("N")) fixed["N"] = units;
  return Session(program, fixed, device);
}

void check_equal(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double largest = 1;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-11 * largest);
}

/// A session that is given one number of steps after the other computes what evaluate() does.
void check_device(const Program& program, std::int64_t units, const std::shared_ptr<Device>& device,
                  std::int64_t samples) {
  CAPTURE(device->name());
  Session session = open_session(program, units, device);
  for (const std::int64_t steps : {5, 1, 0, 7}) {
    CAPTURE(steps);
    const DimValues dims = dims_of(program, steps, units, samples);
    const TensorValues inputs = random_inputs(program, dims, 7);
    set_inputs(session, program, dims, inputs);
    session.set_random_state(0, 0);
    session.run();
    const TensorValues want = evaluate(program, dims, inputs);
    for (const std::string& output : outputs_of(program)) {
      CAPTURE(output);
      check_equal(to_doubles(session.get(output)), want.at(output));
    }
  }
}

void check_devices(const Program& program, std::int64_t units, std::int64_t samples = 3) {
  for (const auto& device : test_devices()) check_device(program, units, device, samples);
}

template <class E>
void check_refused(const std::string& lines, const std::string& message) {
  const std::string text = "dim T, N\nindex t:T, u:T, n:N\ninput x[T,N], h0[N]\n" + lines;
  CAPTURE(text);
  std::string told = "nothing";
  try {
    verify(specialise(parse(text), {{"T", 4}, {"N", 2}}));
  } catch (const E& error) {
    told = error.what();
  }
  CAPTURE(told);
  CHECK(told.find(message) != std::string::npos);
}

TEST_CASE("text reads back as the same program, and so do gradients and optimised programs") {
  for (const Recurrence& recurrence : kRecurrences) {
    CAPTURE(recurrence.name);
    const Program program = parse(recurrence.text);
    verify(program);
    const Program gradient = differentiate(program, outputs_of(program), {});
    verify(gradient);
    const Program optimised = optimise(specialise(gradient, {{"N", 3}}));
    for (const Program& p : {program, gradient, optimised}) {
      CAPTURE(print(p));
      CHECK(print(parse(print(p))) == print(p));
    }
  }
}

TEST_CASE("evaluate takes the steps in order") {
  const Program forwards = parse(recurrence("autoregressive"));
  const TensorValues got = evaluate(forwards, {{"T", 4}}, {{"a", {0.5}}, {"h0", {2}}, {"x", {1, 2, 3, 4}}});
  CHECK(got.at("h") == std::vector<double>{2, 3, 4.5, 6.25});

  const Program backwards =
      parse("dim T\nindex t:T\ninput x[T]\nscan t backwards {\n  output h[t] = x[t] + where(t < T-1, h[t+1], 0)\n}\n");
  CHECK(evaluate(backwards, {{"T", 3}}, {{"x", {1, 2, 4}}}).at("h") == std::vector<double>{7, 6, 4});
}

TEST_CASE("gradients agree with finite differences") {
  for (const Recurrence& recurrence : kRecurrences) {
    CAPTURE(recurrence.name);
    const Program program = parse(recurrence.text);
    for (const std::int64_t steps : {0, 1, 2, 5}) {
      CAPTURE(steps);
      const DimValues dims = dims_of(program, steps, 3);
      CHECK(worst_gradient_error(program, outputs_of(program), {}, dims, random_inputs(program, dims, 3)) < 1e-6);
    }
  }
}

TEST_CASE("the derivative of a scan over two indices reads nothing beyond the ends of a diagonal") {
  // What the logarithm takes becomes a definition over whole diagonals, outside of the condition around it.
  for (const char* dims : {"dim I, J", "dim I dynamic, J dynamic"}) {
    const Program program = parse(std::string(dims) + R"(
index i:I, j:J
input y[J], x[I]
scan i, j {
  let d[i,j] = where(i >= 1 and j >= 1, log(exp(d[i-1,j]) + exp(d[i,j-1]) + exp(d[i-1,j-1] + x[i]*y[j])), x[i]*y[j])
}
output o = d[I-1,J-1]
)");
    for (const DimValues& extents : {DimValues{{"I", 7}, {"J", 5}}, DimValues{{"I", 1}, {"J", 4}}}) {
      const TensorValues inputs = random_inputs(program, extents, 4);
      CHECK(worst_gradient_error(program, {"o"}, {}, extents, inputs) < 1e-6);
    }
  }
}

TEST_CASE("second derivatives agree with finite differences") {
  for (const Recurrence& recurrence : kRecurrences) {
    CAPTURE(recurrence.name);
    const Program program = parse(recurrence.text);
    const Program gradient = differentiate(program, outputs_of(program), {}, false);
    verify(differentiate(gradient, outputs_of(gradient), {}));
    for (const std::int64_t steps : {0, 1, 3}) {
      CAPTURE(steps);
      const DimValues dims = dims_of(program, steps, 2, 2);
      CHECK(worst_gradient_error(gradient, outputs_of(gradient), {}, dims, random_inputs(gradient, dims, 5)) < 1e-6);
    }
  }
}

TEST_CASE("devices agree on second derivatives") {
  for (const char* name : {"two carries, one of them hidden", "means and variances", "reduction over samples"}) {
    CAPTURE(std::string(name));
    const Program gradient =
        differentiate(parse(recurrence(name)), {outputs_of(parse(recurrence(name)))[0]}, {}, false);
    const Program second = gradient_of(gradient);
    check_devices(second, 3);
  }
}

TEST_CASE("the adjoints of a scan are one scan in the other direction") {
  const Program gradient = differentiate(parse(recurrence("two carries, one of them hidden")), {"y"}, {});
  for (const char* name : {"adj.p", "adj.q", "adj.before"}) {
    REQUIRE(gradient.find_definition(name));
    CHECK(gradient.find_definition(name)->scan == Scan{2, true});
  }
  CHECK(!gradient.find_definition("grad.w")->scan);
}

TEST_CASE("devices agree with evaluate, for every number of steps") {
  for (const Recurrence& recurrence : kRecurrences) {
    CAPTURE(recurrence.name);
    const Program gradient = gradient_of(parse(recurrence.text));
    check_devices(gradient, 3);
  }
}

TEST_CASE("long reductions within a step become kernels of their own") {
  const Program gradient = gradient_of(parse(recurrence("reduction over units")));
  check_devices(gradient, 80);
}

FusedProgram fused(const Program& program, std::int64_t units) {
  return fuse(optimise(specialise(program, {{"N", units}})));
}

/// Matrix products inside of scans.
std::size_t count_products(const FusedProgram& program) {
  std::size_t count = 0;
  for (const Step& step : program.steps) {
    if (std::holds_alternative<ScanLoop>(step)) count += products_of(step).size();
  }
  return count;
}

/// Recomputes all that can be.
Program recomputing(Program program) {
  for (Definition& definition : program.definitions) definition.recomputed = why_kept(program, definition).empty();
  verify(program);
  return program;
}

TEST_CASE("what is recomputed is the same") {
  for (const Recurrence& recurrence : kRecurrences) {
    CAPTURE(recurrence.name);
    const Program program = recomputing(parse(recurrence.text));
    CHECK(parse(print(program)) == parse(print(parse(print(program)))));
    for (const std::int64_t steps : {0, 1, 5}) {
      const DimValues dims = dims_of(program, steps, 3);
      CHECK(worst_gradient_error(program, outputs_of(program), {}, dims, random_inputs(program, dims, 3)) < 1e-6);
    }
    const Program gradient = differentiate(program, outputs_of(program), {}, false);
    const DimValues dims = dims_of(gradient, 3, 2, 2);
    CHECK(worst_gradient_error(gradient, outputs_of(gradient), {}, dims, random_inputs(gradient, dims, 5)) < 1e-6);
    for (const std::int64_t units : {3, 96}) check_devices(gradient_of(program), units);
  }
}

std::int64_t workspace_of(const Program& program, const DimValues& dims) {
  const Plan plan = make_plan(specialise(program, {{"N", dims.at("N")}}));
  return plan_memory(plan, dims, std::vector<std::int64_t>(plan.steps.size(), 1)).bytes;
}

TEST_CASE("only what is read later has a place for every step") {
  const Program program = parse(recurrence("means and variances"));
  const DimValues few = {{"T", 10}, {"S", 64}, {"N", 96}}, many = {{"T", 20}, {"S", 64}, {"N", 96}};
  const auto bytes_of_ten_steps = [&](const Program& p) { return workspace_of(p, many) - workspace_of(p, few); };
  constexpr std::int64_t kTenSteps = 10 * 64 * 96 * 4;
  CHECK(bytes_of_ten_steps(program) == 2 * kTenSteps);  // `inner` with its operand, x squared

  const Program kept = differentiate(program, {"h", "w"}, {"h0", "v0"});
  const Program again = differentiate(recomputing(program), {"h", "w"}, {"h0", "v0"});
  CHECK(bytes_of_ten_steps(kept) == 2 * kTenSteps);
  CHECK(bytes_of_ten_steps(again) == 2 * kTenSteps);
}

TEST_CASE("where the last steps alone are wanted, only those that are still read have a place") {
  for (const std::string_view name :
       {"two steps before, the last two wanted", "products of states, the last one wanted"}) {
    CAPTURE(name);
    const Program program = parse(recurrence(name));
    CHECK(workspace_of(program, {{"T", 300}, {"S", 40}, {"N", 96}}) ==
          workspace_of(program, {{"T", 30}, {"S", 40}, {"N", 96}}));
    for (const std::int64_t units : {3, 96}) check_devices(with_dtype(program, DType::f64), units);
  }
}

TEST_CASE("large products within a step are matrix products") {
  const Program gradient = gradient_of(parse(recurrence("reduction over units")));
  CHECK(count_products(fused(gradient, 24)) == 0);
  CHECK(count_products(fused(gradient, 32)) == 2);
  check_devices(gradient, 96);
}

TEST_CASE("a product with the step before is a matrix product where the first step has none") {
  const Program program = parse(R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N, k:N
input W[N,N], c[T,S,N]
scan t {
  output h[t,s,n] = tanh(c[t,s,n] + where(t == 0, 0, sum[k](W[n,k]*h[t-1,s,k])))
}
)");
  CHECK(count_products(fused(program, 96)) == 1);
  check_devices(gradient_of(program), 96);
  // Weights that are infinite do not reach the first step.
  const std::size_t N = 96, S = 16;
  const TensorValues inputs = {{"W", std::vector<double>(N * N, INFINITY)}, {"c", std::vector<double>(2 * S * N, 0.5)}};
  for (const auto& device : test_devices()) {
    const TensorValues got = run_on(device, with_dtype(program, DType::f64), {{"T", 2}, {"S", 16}, {"N", 96}}, inputs);
    check_equal({got.at("h").begin(), got.at("h").begin() + S * N}, std::vector<double>(S * N, std::tanh(0.5)));
  }
}

TEST_CASE("a sum of several products becomes several matrix products, of operands that are computed once") {
  const Program gradient = gradient_of(parse(recurrence("means and variances")));
  const FusedProgram program = fused(gradient, 96);
  CHECK(count_products(program) == 6);
  CHECK(std::ranges::count_if(program.program.definitions, [&](const Definition& definition) {
          return print(definition.body, program.program, definition.axes).ends_with("^2") && !definition.scan;
        }) == 2);  // of the weights, for all uses, and of the inputs
  check_devices(gradient, 96);
}

TEST_CASE("the gradient of a weight is one matrix product over all steps and samples") {
  const FusedProgram program = fused(gradient_of(parse(recurrence("reduction over units"))), 96);
  const std::vector<Affine> steps_and_samples = {Symbol::dim("T"), Symbol::dim("S")};
  CHECK(std::ranges::count_if(program.steps, [&](const Step& step) {
          const auto* product = std::get_if<MatrixProduct>(&step);
          return product && product->depth == steps_and_samples;
        }) == 1);
}

TEST_CASE("sums over many samples within a step are shared out in chunks") {
  const Program gradient = gradient_of(parse(recurrence("reduction over samples")));
  const Plan plan = make_plan(specialise(gradient, {{"N", 3}}));
  std::int64_t chunks = 0;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      if (kernel->in_scan) chunks = std::max(chunks, choose_partition(*kernel, dims_of(gradient, 5, 3, 200), 8).chunks);
    }
  }
  CHECK(chunks == 3);
  check_devices(gradient, 3, 200);
}

TEST_CASE("random numbers differ from step to step and are the same on every device") {
  const Program program =
      with_dtype(parse("dim T dynamic, N\nindex t:T, n:N\ninput x[T,N]\n"
                       "scan t {\n  output h[t,n] = where(t == 0, x[0,n], h[t-1,n]) + randn(1)\n}\n"),
                 DType::f64);
  check_devices(program, 5);
  const std::vector<double> h = evaluate(program, {{"T", 3}, {"N", 1}}, {{"x", {0, 0, 0}}}).at("h");
  CHECK(h[1] - h[0] != doctest::Approx(h[2] - h[1]));
}

TEST_CASE("another number of steps compiles nothing") {
  const Program program = gradient_of(parse(recurrence("reduction over units")));
  for (const auto& device : test_devices()) {
    CAPTURE(device->name());
    Session session(program, {{"N", 3}}, device);
    std::int64_t misses = 0;
    for (const std::int64_t steps : {3, 7}) {
      const DimValues dims = dims_of(program, steps, 3);
      set_inputs(session, program, dims, random_inputs(program, dims, 1));
      session.set_random_state(0, 0);
      session.run();
      if (steps == 7) CHECK(device->cache_stats().misses == misses);
      misses = device->cache_stats().misses;
    }
    CHECK((misses + device->cache_stats().hits > 0 || device->name() == "interp"));
  }
}

TEST_CASE("few steps over an axis of extent 0 compute nothing, and sums over it are 0") {
  const Program program = gradient_of(parse(R"(
dim K
index k:K, t in 0..3
input x[K]
scan t {
  let h[t,k] = where(t == 0, 1, x[k]*h[t-1,k])
}
output y = sum[k](h[2,k])
output last[k] = h[2,k]
)"));
  const DimValues dims = {{"K", 0}};
  const TensorValues inputs = random_inputs(program, dims, 1);
  const TensorValues want = evaluate(program, dims, inputs);
  CHECK(want.at("y") == std::vector<double>{0});
  for (const auto& device : test_devices()) {
    CAPTURE(device->name());
    Session session(program, dims, device);
    set_inputs(session, program, dims, inputs);
    session.run();
    for (const std::string& output : outputs_of(program)) check_equal(to_doubles(session.get(output)), want.at(output));
  }
}

TEST_CASE("what a scan may not do") {
  check_refused<TypeError>("scan t {\n  let h[t,n] = h[t,n] + 1\n}\n", "computed later in the same step");
  check_refused<TypeError>("scan t {\n  let a[t,n] = b[t,n]\n  let b[t,n] = a[t,n]\n}\n",
                           "move `b` up, or read it at the step before, t-1");
  check_refused<TypeError>("scan t {\n  let h[t,n] = where(t < T-1, h[t+1,n], 0)\n}\n",
                           "not computed yet when its scan comes to this step");
  check_refused<TypeError>("scan t backwards {\n  let h[t,n] = where(t > 0, h[t-1,n], 0)\n}\n",
                           "read `h` at an earlier step, t+1");
  check_refused<TypeError>("scan t {\n  let h[t,n] = sum[u](h[u,n])\n}\n", "where(t-u >= 1, h[u,n], ..)");
  check_refused<TypeError>("scan t {\n  let k[t]: i32 = t/2\n  let h[t,n] = h[k[t],n]\n}\n",
                           "sum[u in 0..t](where(.. == u, h[u,..], 0))");
  check_refused<TypeError>("scan t {\n  let h[t,n] = sum[u in 0..t+1](h[u,n])\n}\n", "not computed yet");
  check_refused<TypeError>("scan t backwards {\n  let h[t,n] = sum[u in 0..t](h[u,n])\n}\n", "not computed yet");
  check_refused<TypeError>("scan t {\n  let h[t,n] = sum[u in 0..t](where(u == 0, h[T-1-u,n], 0))\n}\n",
                           "not computed yet");
  check_refused<ShapeError>("scan t {\n  let h[t,n] = h[t-1,n] + x[t,n]\n}\n", "guard the access with where(...)");
  check_refused<ShapeError>("scan t {\n  let h[n,t] = x[t,n]\n}\n", "does not have `t` as its first axis");
  check_refused<ShapeError>("scan t {\n  let a[t] = 1\n  let b[t in 0..2] = 1\n}\n", "first axis");
  check_refused<ParseError>("scan t {\n}\n", "this scan is empty");
  check_refused<ParseError>("scan t {\n  let h[t,n] = x[t,n]\n", "`let` expected");
  check_refused<ParseError>("scan t {\n  input y[N]\n}\n", "a scan holds definitions");
  check_refused<ParseError>("scan t\n", "`{` expected");
  check_refused<ParseError>("recompute y[t,n] = x[t,n]\n", "`recompute` stands outside of a scan");
  check_refused<TypeError>("scan t {\n  recompute h[t,n] = where(t > 0, h[t-1,n], 0) + x[t,n]\n}\n",
                           "`h` cannot be recomputed: `h` reads it at another step; define it with let");
  check_refused<TypeError>("scan t {\n  recompute h[t,n] = sin(x[t,n])\n}\noutput y[t,n] = h[t,n]\n",
                           "`h` cannot be recomputed: `y` reads it outside of the scan");
  check_refused<TypeError>("scan t {\n  recompute h[t,n] = sin(x[t,n])\n}\noutput h\n", "it is an output");
  check_refused<TypeError>("let y[t,n] = h[t,n]\nscan t {\n  let h[t,n] = x[t,n]\n}\n", "`h` is not declared");
}

}  // namespace
