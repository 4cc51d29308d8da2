// The optimisers and schedules inside a training step, against their formulas written out by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "ops/training.h"

namespace {

using namespace moxie;

constexpr double kRate = 0.1;
constexpr double kDecay = 0.01;
constexpr int kSteps = 5;

/// loss = 1/2 sum (w - target)^2 + 1/2 (3b)^2, so that the gradients are w - target and 9b.
const char* const kLoss = R"(
dim S dynamic, N = 2, M = 3
index s:S, n:N, m:M
input x[S,N], target[N,M], w[N,M], b
output loss = sum[n,m]((w[n,m] - target[n,m])^2)/2 + (3*b)^2/2 + 0*sum[s,n](x[s,n])
)";

TrainingStep make_step(const OptimiserOptions& optimiser, const ScheduleOptions& schedule = {}) {
  const std::vector<Parameter> parameters = {{"w", {2, 3}, {}}, {"b", {}, {}}};
  const Program loss = with_dtype(parse(kLoss), DType::f64);
  return training_step(differentiate(loss, {"loss"}, trainable_names(parameters)), parameters, optimiser, schedule);
}

TensorValues first_inputs(const TrainingStep& step) {
  TensorValues values = {{"x", {1, 2}}, {"target", {1, -2, 3, 0.5, 0, 7}}, {"w", {0, 1, -1, 2, 0.25, 6}}, {"b", {0.5}}};
  values["initial_rate"] = {kRate};
  for (const Parameter& state : step.state) values[state.name].resize(state.shape.empty() ? 1 : 6);
  return values;
}

/// Takes steps and compares each parameter with `update`, called with a parameter, its gradient, the step from 1, and a
/// state of two numbers.
using Update = std::function<double(double value, double gradient, int step, double* state)>;

void check_rule(const OptimiserOptions& options, const Update& update) {
  const TrainingStep step = make_step(options);
  verify(step.program);
  TensorValues values = first_inputs(step);
  std::vector<double> want = values["w"];
  double want_b = values["b"][0];
  std::vector<double> state(2 * want.size() + 2);
  for (int k = 1; k <= kSteps; ++k) {
    for (std::size_t i = 0; i < want.size(); ++i)
      want[i] = update(want[i], want[i] - values["target"][i], k, &state[2 * i]);
    want_b = update(want_b, 9 * want_b, k, &state[2 * want.size()]);
    const TensorValues results = evaluate(step.program, {{"S", 1}}, values);
    for (const auto& [output, input] : step.feedback) values[input] = results.at(output);
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(values["w"][i] == doctest::Approx(want[i]).epsilon(1e-12));
    CHECK(values["b"][0] == doctest::Approx(want_b).epsilon(1e-12));
  }
  CHECK(values["step"][0] == kSteps);
}

OptimiserOptions rule(const char* name) {
  OptimiserOptions options;
  options.rule = name;
  options.decay = kDecay;
  return options;
}

std::vector<double> rates_of(const ScheduleOptions& schedule, int steps) {
  const TrainingStep step = make_step(rule("sgd"), schedule);
  TensorValues values = first_inputs(step);
  std::vector<double> rates;
  for (int k = 0; k < steps; ++k) {
    values["step"] = {static_cast<double>(k)};
    rates.push_back(evaluate(step.program, {{"S", 1}}, values).at("rate")[0]);
  }
  return rates;
}

}  // namespace

TEST_CASE("gradient descent with weight decay") {
  check_rule(rule("sgd"), [](double w, double g, int, double*) { return w - kRate * (g + kDecay * w); });
}

TEST_CASE("momentum") {
  check_rule(rule("momentum"), [](double w, double g, int, double* v) {
    v[0] = 0.9 * v[0] + g + kDecay * w;
    return w - kRate * v[0];
  });
}

TEST_CASE("rmsprop") {
  check_rule(rule("rmsprop"), [](double w, double g, int, double* v) {
    g += kDecay * w;
    v[0] = 0.9 * v[0] + 0.1 * g * g;
    return w - kRate * g / (std::sqrt(v[0]) + 1e-8);
  });
}

TEST_CASE("adam") {
  check_rule(rule("adam"), [](double w, double g, int step, double* v) {
    g += kDecay * w;
    v[0] = 0.9 * v[0] + 0.1 * g;
    v[1] = 0.999 * v[1] + 0.001 * g * g;
    const double m = v[0] / (1 - std::pow(0.9, step));
    return w - kRate * m / (std::sqrt(v[1] / (1 - std::pow(0.999, step))) + 1e-8);
  });
}

TEST_CASE("the norm of the gradient") {
  const TrainingStep step = make_step(rule("sgd"));
  const TensorValues results = evaluate(step.program, {{"S", 1}}, first_inputs(step));
  // (w - target) = -1, 3, -4, 1.5, 0.25, -1 and 9b = 4.5
  CHECK(results.at("gradient_norm")[0] == doctest::Approx(std::sqrt(1 + 9 + 16 + 2.25 + 0.0625 + 1 + 20.25)));
}

TEST_CASE("schedules") {
  CHECK(rates_of({"constant"}, 2) == std::vector<double>{kRate, kRate});
  const std::vector<double> falling = rates_of({"step", 0, 0.5, 2}, 5);
  const std::vector<double> want = {kRate, kRate, kRate / 2, kRate / 2, kRate / 4};
  for (std::size_t k = 0; k < want.size(); ++k) CHECK(falling[k] == doctest::Approx(want[k]));
  CHECK(rates_of({"inverse_time", 0.5}, 4)[3] == doctest::Approx(kRate / 2.5));
  CHECK(rates_of({"exponential", 0.5}, 4)[3] == doctest::Approx(kRate * std::exp(-1.5)));
}

TEST_CASE("unknown rules and settings out of range are refused") {
  CHECK_THROWS_WITH_AS(make_step(rule("adamax")), "there is no optimiser 'adamax'; known: adam momentum rmsprop sgd",
                       TypeError);
  CHECK_THROWS_WITH_AS(make_step(rule("sgd"), {"cosine"}),
                       "there is no schedule 'cosine'; known: constant exponential inverse_time step", TypeError);
  OptimiserOptions options = rule("adam");
  options.beta1 = 1;
  CHECK_THROWS_WITH_AS(make_step(options), "the beta1 of optimiser.adam is 1, but must be at least 0 and below 1",
                       TypeError);
  CHECK_THROWS_WITH_AS(training_step(parse("output y = 1"), {}),
                       doctest::Contains("is not the gradient of a loss: it has no input cot.loss"), TypeError);
}
