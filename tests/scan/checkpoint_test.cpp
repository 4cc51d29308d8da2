// Scans that keep checkpoints: the language, values, memory, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/builder/builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/fuse/checkpoints.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/interp/interp_device.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/scan/recurrences.h"

namespace {

using namespace moxie;
using namespace moxie::test;

Program with_checkpoints(Program program, const Checkpoints& checkpoints) {
  for (Definition& definition : program.definitions) {
    if (definition.scan) definition.scan->checkpoints = checkpoints;
  }
  return program;
}

/// Whether the scans may have checkpoints.
bool takes_checkpoints(const Program& program) {
  try {
    verify(with_checkpoints(program, recompute_every(2)));
  } catch (const TypeError&) {
    return false;
  }
  return true;
}

Program gradient_of(const Program& program) {
  return with_dtype(differentiate(program, outputs_of(program), {}, false), DType::f64);
}

void check_equal(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double largest = 1;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  }
  CHECK(worst <= 1e-10 * largest);
}

/// One session, which is given one number of steps after the other, computes what evaluate() does, which knows nothing
/// of checkpoints.
void check_device(const Program& program, std::int64_t units, const std::shared_ptr<Device>& device,
                  const std::vector<std::int64_t>& numbers_of_steps, std::int64_t samples = 3) {
  CAPTURE(device->name());
  DimValues fixed;
  if (program.find_dim("N")) fixed["N"] = units;
  Session session(program, fixed, device);
  for (const std::int64_t steps : numbers_of_steps) {
    CAPTURE(steps);
    const DimValues dims = dims_of(program, steps, units, samples);
    const TensorValues inputs = random_inputs(program, dims, 7);
    for (const InputDecl& input : program.inputs)
      session.set(input.name,
                  make_host_tensor(input.dtype, extents_of(program, input.name, dims), inputs.at(input.name)));
    session.set_random_state(0, 0);
    session.run();
    const TensorValues want = evaluate(program, dims, inputs);
    for (const std::string& output : outputs_of(program)) {
      CAPTURE(output);
      check_equal(to_doubles(session.get(output)), want.at(output));
    }
  }
}

void check_devices(const Program& program, std::int64_t units, const std::vector<std::int64_t>& numbers_of_steps) {
  for (const auto& device : test_devices()) check_device(program, units, device, numbers_of_steps);
}

/// Parts that run chunk by chunk.
std::size_t chunked_parts(const Program& program, std::int64_t units = 3) {
  DimValues fixed;
  if (program.find_dim("N")) fixed["N"] = units;
  const auto parts = in_chunks(specialise(program, fixed));
  return static_cast<std::size_t>(
      std::ranges::count_if(parts, [](const ProgramPart& part) { return part.slices.has_value(); }));
}

const std::vector<Checkpoints> kSpacings = {recompute_every(1), recompute_every(2), recompute_every(3),
                                            recompute_every(100), recompute_every()};

TEST_CASE("gradients are those of scans that keep all steps") {
  for (const Recurrence& recurrence : kRecurrences) {
    CAPTURE(recurrence.name);
    const Program program = parse(recurrence.text);
    if (!takes_checkpoints(program)) continue;
    for (const Checkpoints& checkpoints : kSpacings) {
      CAPTURE(checkpoints.every.value_or(Affine(0)).constant());
      const Program gradient = gradient_of(with_checkpoints(program, checkpoints));
      check_device(gradient, 3, make_interp_device(), {5, 1, 0, 7});
    }
  }
}

TEST_CASE("devices agree on gradients with checkpoints") {
  for (const Recurrence& recurrence : kRecurrences) {
    CAPTURE(recurrence.name);
    const Program program = parse(recurrence.text);
    if (!takes_checkpoints(program)) continue;
    check_devices(gradient_of(with_checkpoints(program, recompute_every(3))), 3, {5, 1, 0, 7});
  }
}

TEST_CASE("second derivatives are those of scans that keep all steps") {
  for (const Recurrence& recurrence : kRecurrences) {
    CAPTURE(recurrence.name);
    const Program program = parse(recurrence.text);
    if (!takes_checkpoints(program)) continue;
    const Program second = gradient_of(gradient_of(with_checkpoints(program, recompute_every(2))));
    check_device(second, 2, make_interp_device(), {3, 0, 5});
  }
}

/// Programs beside the recurrences: each has the dims T (dynamic), S (dynamic) and N, or some of them.
const std::vector<Recurrence> kModels = {
    {"two layers, gates, a loss at every step", R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N, k:N
input x[T,S,N], y[T,S,N], W[N,N], V[N,N], Z[N,N], b[N]
scan t recompute every 3 {
  let before[t,s,n] = where(t == 0, 0, h[t-1,s,n])
  let z[t,s,n] = sigmoid(sum[k](Z[n,k]*before[t,s,k]) + b[n])
  let h[t,s,n] = z[t,s,n]*before[t,s,n] + (1 - z[t,s,n])*tanh(sum[k](W[n,k]*x[t,s,k]))
}
scan t recompute every 3 {
  let g[t,s,n] = tanh(h[t,s,n] + sum[k](V[n,k]*where(t == 0, 0, g[t-1,s,k])))
}
output loss = sum[t,s,n]((g[t,s,n] - y[t,s,n])^2)/(S*N)
)"},
    {"samples before time, predictions at every step", R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N, k:N
input x[S,T,N], W[N,N], V[N]
scan t recompute every 4 {
  let h[t,s,n] = tanh(x[s,t,n] + sum[k](W[n,k]*where(t == 0, 0, h[t-1,s,k])))
}
output out[s,t] = sum[n](V[n]*h[t,s,n])
)"},
    {"both directions", R"(dim T dynamic, N
index t:T, n:N, k:N
input x[T,N], W[N,N], V[N,N]
scan t recompute every 2 {
  let f[t,n] = tanh(x[t,n] + sum[k](W[n,k]*where(t == 0, 0, f[t-1,k])))
}
scan t backwards recompute every 2 {
  let b[t,n] = tanh(x[t,n] + sum[k](V[n,k]*where(t == T-1, 0, b[t+1,k])))
}
output y[t,n] = f[t,n]*b[t,n]
output first[n] = where(T >= 1, b[0,n] + f[T-1,n], 0)
)"},
    {"steps ahead, and a window of inputs", R"(dim T dynamic, N
index t:T, n:N, d in 0..3
input x[T,N], w[3], a[N]
scan t recompute every 3 {
  let e[t,n] = sum[d](w[d]*where(t + d < T, x[t+d,n], 0))
  let h[t,n] = sin(e[t,n] + a[n]*where(t < 2, 0, h[t-2,n]))
}
scan t recompute every 3 {
  let g[t,n] = where(t + 1 < T, h[t+1,n], 0)*a[n] + where(t == 0, 0, sin(g[t-1,n]))
}
output y[n] = sum[t](g[t,n]*where(t >= 1, h[t-1,n], 0))
)"},
    {"normalised by all steps", R"(dim T dynamic, N
index t:T, n:N
input x[T,N], a[N]
scan t recompute every 2 {
  let h[t,n] = sin(x[t,n] + a[n]*where(t == 0, 0, h[t-1,n]))
}
let m[n] = sum[t](h[t,n])/(T + 1)
let c[t,n] = h[t,n] - m[n]
output v[n] = sum[t](c[t,n]^2)
)"},
    {"a draw at every step, and what is recomputed", R"(dim T dynamic, N
index t:T, n:N
input x[T,N], a[N]
scan t recompute every 3 {
  recompute p[t,n] = a[n]*where(t == 0, 0, h[t-1,n])
  let h[t,n] = sin(x[t,n] + p[t,n] + 0.5*randn(1))
}
output y[n] = sum[t](h[t,n]^2)
)"},
    {"two clocks", R"(dim T dynamic, N
index t:T, n:N
input x[T,N], z[T+2,N], a[N]
scan t recompute every 2 {
  let h[t,n] = sin(x[t,n] + a[n]*where(t == 0, 0, h[t-1,n]))
}
scan u recompute every sqrt {
  let g[u in 0..T+2,n] = tanh(z[u,n] + a[n]*where(u == 0, where(T >= 1, h[T-1,n], 0), g[u-1,n]))
}
output y[n] = g[T+1,n]
)"},
};

TEST_CASE("models with checkpoints, their gradients and second derivatives, on every device") {
  for (const Recurrence& model : kModels) {
    CAPTURE(model.name);
    const Program program = parse(model.text);
    CHECK(parse(print(program)) == program);
    const Program gradient = gradient_of(program);
    CHECK(chunked_parts(gradient) >= 2);
    check_devices(gradient, 3, {5, 1, 0, 8, 12});
    check_device(gradient_of(gradient), 2, make_interp_device(), {4, 0, 7});
  }
}

TEST_CASE("what reads all steps of a scan at once finds them stored") {
  const Program program = parse(R"(dim T dynamic, N
index t:T, n:N, u:T
input x[T,N], a[N]
scan t recompute every 2 {
  let h[t,n] = sin(x[t,n] + a[n]*where(t == 0, 0, h[t-1,n]))
}
scan u recompute every 2 {
  let g[u,n] = sum[t](h[t,n]*x[u,n])/(T + 1) + where(u == 0, where(T >= 1, h[T-1,n], 0), sin(g[u-1,n]))
}
output y[n] = where(T >= 1, max[t](h[t,n]^2) + g[T-1,n], 0)
)");
  const Program gradient = gradient_of(program);
  check_devices(gradient, 3, {5, 1, 0, 8});
  CHECK(worst_gradient_error(program, {"y"}, {}, dims_of(program, 5, 2),
                             random_inputs(program, dims_of(program, 5, 2), 3)) < 1e-6);
}

TEST_CASE("gradients of models with checkpoints agree with finite differences") {
  for (const Recurrence& model : kModels) {
    CAPTURE(model.name);
    const Program program = parse(model.text);
    const DimValues dims = dims_of(program, 5, 2, 2);
    CHECK(worst_gradient_error(program, outputs_of(program), {}, dims, random_inputs(program, dims, 3)) < 1e-6);
  }
}

TEST_CASE("without a derivative only what takes several passes over time runs in chunks") {
  const std::map<std::string_view, std::size_t> several = {
      {"both directions", 2}, {"steps ahead, and a window of inputs", 3}, {"normalised by all steps", 2}};
  for (const Recurrence& model : kModels) {
    CAPTURE(model.name);
    const auto passes = several.find(model.name);
    CHECK(chunked_parts(parse(model.text)) == (passes == several.end() ? 0 : passes->second));
  }
}

std::int64_t workspace_of(const Program& program, const DimValues& dims) {
  const Plan plan = make_plan(specialise(program, {{"N", dims.at("N")}}));
  const DimValues all = with_slice_dims(plan, dims);
  return plan_memory(plan, all, std::vector<std::int64_t>(plan.steps.size(), 1)).bytes;
}

constexpr const char* kLong = R"(dim T dynamic, S dynamic, N
index t:T, s:S, n:N, k:N
input x[T,S,N], W[N,N], V[N,N]
scan t {
  let before[t,s,n] = where(t == 0, 0, h[t-1,s,n])
  let z[t,s,n] = sigmoid(sum[k](V[n,k]*x[t,s,k]))
  let h[t,s,n] = tanh(z[t,s,n]*before[t,s,n] + sum[k](W[n,k]*before[t,s,k]))
}
output y = sum[t,s,n](h[t,s,n]^2)
)";

TEST_CASE("memory grows with the square root of the number of steps") {
  const Program plain = differentiate(parse(kLong), {"y"}, {"W", "V"});
  const Program chunked = differentiate(with_checkpoints(parse(kLong), recompute_every()), {"y"}, {"W", "V"});
  const auto states = [](const Program& program, std::int64_t steps) {
    const DimValues dims = {{"T", steps}, {"S", 16}, {"N", 32}};
    return static_cast<double>(workspace_of(program, dims)) / (16 * 32 * 4);
  };
  CHECK(states(plain, 4096) > 2 * 4096);
  CHECK(states(chunked, 4096) < 16 * 64 + 200);
  CHECK(states(chunked, 4096) < 2.2 * states(chunked, 1024));
  const Program every = differentiate(with_checkpoints(parse(kLong), recompute_every(32)), {"y"}, {"W", "V"});
  CHECK(states(every, 8192) - states(every, 4096) == 4096 / 32);  // a state of one step for each checkpoint
}

TEST_CASE("a limit of memory gives checkpoints to scans that need more, and to no others") {
  const Program program = differentiate(parse(kLong), {"y"}, {"W", "V"});
  const DimValues dims = {{"T", 600}, {"S", 4}, {"N", 8}};
  const TensorValues inputs = random_inputs(program, dims, 3);
  for (const char* name : {"cpu", "cuda-emu"}) {
    CAPTURE(name);
    std::map<std::string, std::vector<double>> gradients;  // by the limit
    std::map<std::string, std::int64_t> bytes;
    for (const char* limit : {"", "1G", "50K"}) {
      const auto device = test_device(name, {.programs = {.memory = limit}});
      if (!device) continue;
      Session session(program, {{"N", 8}}, device);
      for (const InputDecl& input : program.inputs)
        session.set(input.name,
                    make_host_tensor(input.dtype, extents_of(program, input.name, dims), inputs.at(input.name)));
      session.run();
      gradients[limit] = to_doubles(session.get("grad.W"));
      bytes[limit] = session.workspace_bytes();
    }
    if (gradients.empty()) continue;
    CHECK(bytes["1G"] == bytes[""]);
    CHECK(gradients["1G"] == gradients[""]);
    CHECK(4 * bytes["50K"] < bytes[""]);
    for (std::size_t k = 0; k < gradients[""].size(); ++k)
      CHECK(gradients["50K"][k] == doctest::Approx(gradients[""][k]).epsilon(1e-4));
  }
}

TEST_CASE("a scan that needs all of its steps keeps them, whatever the limit of memory") {
  const Program program = parse(
      "dim T, N\nindex t:T, n:N\ninput x[T,N]\nscan t {\n  let h[t,n] = sum[u in 0..t](h[u,n]) + x[t,n]\n}\n"
      "output y[n] = h[T-1,n]\n");
  Session session(program, {{"T", 4}, {"N", 2}}, open_device("cpu", {.programs = {.memory = "1"}}));
  session.set("x", make_host_tensor(DType::f32, {4, 2}, std::vector<double>(8, 1)));
  session.run();
  CHECK(to_doubles(session.get("y")) == std::vector<double>{8, 8});
}

template <class E>
void check_refused(const std::string& lines, const std::string& message) {
  const std::string text = "dim T, N, K = 0, L dynamic\nindex t:T, n:N\ninput x[T,N]\n" + lines;
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

TEST_CASE("what has no checkpoints") {
  const std::string body = " {\n  let h[t,n] = where(t > 0, h[t-1,n], 0) + x[t,n]\n}\n";
  check_refused<ShapeError>("scan t recompute every 0" + body, "0 is none of them");
  check_refused<ShapeError>("scan t recompute every -3" + body, "write a positive integer");
  check_refused<ParseError>("scan t recompute every 1.5" + body, "<text>:4");
  check_refused<ParseError>("scan t recompute" + body, "every sqrt for the square root");
  check_refused<ParseError>("scan t recompute 4" + body, "`every` expected");
  check_refused<ShapeError>("scan t recompute every K" + body, "0 is none of them");
  check_refused<ShapeError>("scan t recompute every L" + body, "`L` is a dynamic dim");
  check_refused<ParseError>("recompute every 4 y[t,n] = x[t,n]\n", "`recompute` stands outside of a scan");
  check_refused<ParseError>("scan t {\n  recompute every 4 h[t,n] = x[t,n]\n}\n",
                            "where the scan begins: scan t recompute every 64 {");
  check_refused<TypeError>("scan t recompute every 2 {\n  let h[t,n] = sum[u in 0..t](h[u,n]) + x[t,n]\n}\n",
                           "leave out `recompute every`");
}

TEST_CASE("the C++ form") {
  Program program("recurrence");
  const Dim steps = program.dim("T", dynamic);
  const Index t(steps);
  const Tensor x = program.input("x", {steps});
  const Tensor h("h", 1);
  program.scan(t, recompute_every(8),
               [&](ScanBody& step) { step.let("h", {t}, x(t) + sin(where(equal(t, 0), 0, h(t - 1)))); });
  program.scan(t, backwards, recompute_every(), [&](ScanBody& step) {
    const Tensor g("g", 1);
    step.output("g", {t}, h(t) + sin(where(equal(t, steps - 1), 0, g(t + 1))));
  });
  CHECK(program.definitions[0].scan == Scan{1, false, recompute_every(8)});
  CHECK(program.definitions[1].scan == Scan{2, true, recompute_every()});
}

}  // namespace
