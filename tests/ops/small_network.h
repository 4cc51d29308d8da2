#pragma once
// Small networks with made-up inputs, evaluated in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "ops/network.h"

namespace moxie::small {

constexpr std::int64_t kSamples = 3;

inline std::vector<double> draw(std::mt19937_64& random, std::int64_t count, double low, double high) {
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(count));
  std::ranges::generate(values, [&] { return uniform(random); });
  return values;
}

inline std::int64_t element_count(const Parameter& parameter) {
  std::int64_t count = 1;
  for (const std::int64_t extent : parameter.shape) count *= extent;
  return count;
}

/// Inputs and parameters: constants as they are meant to start, everything else at random; one-hot targets, or any for
/// regression.
inline TensorValues draw_inputs(const Network& network, std::int64_t features, std::int64_t outputs, bool one_hot) {
  std::mt19937_64 random(7);
  TensorValues values;
  values["x"] = draw(random, kSamples * features, -1, 1);
  values["target"] = draw(random, kSamples * outputs, -1, 1);
  if (one_hot) {
    for (std::int64_t i = 0; i < kSamples * outputs; ++i)
      values["target"][static_cast<std::size_t>(i)] = i % outputs == i / outputs % outputs;
  }
  for (const Parameter& parameter : network.parameters) {
    const std::int64_t count = element_count(parameter);
    if (parameter.initialiser.kind == Initialiser::Kind::Values) {
      values[parameter.name] = parameter.initialiser.values;
      continue;
    }
    const bool constant = parameter.initialiser.kind == Initialiser::Kind::Constant;
    values[parameter.name] = constant ? std::vector<double>(static_cast<std::size_t>(count), parameter.initialiser.low)
                                      : draw(random, count, -1, 1);
  }
  return values;
}

inline TensorValues run(const Program& program, TensorValues inputs) {
  std::erase_if(inputs, [&](const auto& item) { return !program.find_input(item.first); });
  return evaluate(program, {{"S", kSamples}}, inputs);
}

inline void check_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-12) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(tolerance));
}

inline GpnOptions small_options(GpnOptions::Propagate propagate, Task task) {
  GpnOptions options;
  options.sizes = {3, 4, 3};
  if (task == Task::Classification) options.sizes.push_back(2);
  options.task = task;
  options.propagate = propagate;
  options.inducing_points = 5;
  options.train_points = true;
  options.least_noise = 0;
  options.penalty = 0;
  return options;
}

/// Compares the change of the loss along a direction by the gradient and by central differences of `loss`.
inline void check_slope(const Network& network, const TensorValues& inputs,
                        const std::function<double(const TensorValues& inputs)>& loss) {
  std::vector<std::string> trained;
  for (const Parameter& parameter : network.parameters) {
    if (parameter.trainable) trained.push_back(parameter.name);
  }
  const Program gradient = differentiate(network.train, {"loss"}, trained);
  TensorValues with_cotangent = inputs;
  with_cotangent["cot.loss"] = {1};
  const TensorValues gradients = run(gradient, with_cotangent);
  std::mt19937_64 random(11);
  constexpr double kStep = 1e-5;
  TensorValues up = inputs;
  TensorValues down = inputs;
  double slope = 0;
  for (const std::string& name : trained) {
    const std::vector<double> direction = draw(random, static_cast<std::int64_t>(inputs.at(name).size()), -1, 1);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      slope += direction[i] * gradients.at("grad." + name)[i];
      up[name][i] += kStep * direction[i];
      down[name][i] -= kStep * direction[i];
    }
  }
  CHECK(slope == doctest::Approx((loss(up) - loss(down)) / (2 * kStep)).epsilon(1e-6));
}

inline void check_slope(const Network& network, const TensorValues& inputs) {
  check_slope(network, inputs, [&](const TensorValues& at) { return run(network.train, at).at("loss")[0]; });
}

}  // namespace moxie::small
