// Variants of Gaussian process neuron networks: posteriors, sharing, covariances, draws.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "ops/catalogue.h"
#include "tests/ops/small_network.h"

namespace {

using namespace moxie;
using namespace moxie::small;
using Propagate = GpnOptions::Propagate;

/// As `inputs`, with every tensor of `shared` that has one axis less repeated for the units of `separate`.
TensorValues repeated(TensorValues inputs, const Network& shared, const Network& separate) {
  for (const Parameter& own : separate.parameters) {
    const auto stored = std::ranges::find(shared.parameters, own.name, &Parameter::name);
    REQUIRE(stored != shared.parameters.end());
    if (stored->shape == own.shape) continue;
    const bool unit_first = own.shape.size() == 3;
    const auto units = static_cast<std::size_t>(unit_first ? own.shape.front() : own.shape.back());
    const std::vector<double> values = inputs.at(own.name);
    const bool grouped = stored->shape.size() == own.shape.size();
    const auto sets = static_cast<std::size_t>(!grouped     ? 1
                                               : unit_first ? stored->shape.front()
                                                            : stored->shape.back());
    const std::size_t points = values.size() / sets;
    std::vector<double>& all = inputs[own.name];
    all.assign(points * units, 0);
    for (std::size_t k = 0; k < points; ++k) {
      for (std::size_t n = 0; n < units; ++n) {
        const std::size_t set = n / (units / sets);
        all[unit_first ? n * points + k : k * units + n] = values[unit_first ? set * points + k : k * sets + set];
      }
    }
  }
  return inputs;
}

TEST_CASE("units that share virtual observations are units that have the same") {
  using Inference = GpnOptions::Inference;
  using Sharing = GpnOptions::Sharing;
  for (const Inference inference :
       {Inference::MaximumLikelihood, Inference::VariationalFull, Inference::VariationalDiagonal}) {
    for (const Sharing sharing : {Sharing::Layer, Sharing::Group}) {
      GpnOptions options = small_options(Propagate::Variance, Task::Regression);
      options.sizes = {3, 4, 2};
      options.inference = inference;
      const Network separate = gpn_network(options);
      options.sharing = sharing;
      const Network shared = gpn_network(options);
      const TensorValues inputs = draw_inputs(shared, 3, 2, false);
      const TensorValues want = run(separate.predict, repeated(inputs, shared, separate));
      check_close(run(shared.predict, inputs).at("mean"), want.at("mean"));
      check_close(run(shared.predict, inputs).at("variance"), want.at("variance"));
    }
  }
}

TEST_CASE("a shared set of virtual observations diverges from the prior once") {
  GpnOptions options = small_options(Propagate::Variance, Task::Classification);
  options.sizes = {3, 4, 2};
  options.inference = GpnOptions::Inference::VariationalFull;
  const Network separate = gpn_network(options);
  options.sharing = GpnOptions::Sharing::Group;
  const Network shared = gpn_network(options);
  const TensorValues inputs = draw_inputs(shared, 3, 2, true);
  const double of_units = run(separate.train, repeated(inputs, shared, separate)).at("kl")[0];
  CHECK(run(shared.train, inputs).at("kl")[0] == doctest::Approx(of_units / 2));
}

TEST_CASE("whitened posteriors are the posteriors of the targets") {
  const DimValues dims = {{"N", 2}, {"R", 4}};
  std::mt19937_64 random(3);
  TensorValues inputs = {{"m", draw(random, 8, -1, 1)},
                         {"lower", draw(random, 32, -1, 1)},
                         {"log_scale", draw(random, 8, -1, 0)},
                         {"centre", draw(random, 8, -1, 1)},
                         {"V", {-2, -2, -1, -0.9, 0.5, 0, 2, 1.5}},
                         {"jitter", {0.01}},
                         {"lambda", {1, 0.7}}};
  const TensorValues white = evaluate(load_op("gpn.vb_whitened"), dims, inputs);
  TensorValues targets = {{"V", inputs["V"]}, {"jitter", inputs["jitter"]}, {"lambda", inputs["lambda"]}};
  targets["mu_u"] = white.at("mu_u");
  targets["cov_u"].assign(32, 0);
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::size_t t = 0; t < 4; ++t) {
        for (std::size_t v = 0; v < 4; ++v)
          targets["cov_u"][(n * 4 + r) * 4 + t] +=
              white.at("factor")[(n * 4 + r) * 4 + v] * white.at("factor")[(n * 4 + t) * 4 + v];
      }
    }
  }
  const double kl = evaluate(load_op("gpn.kl"), dims, targets).at("kl")[0];
  CHECK(white.at("kl")[0] == doctest::Approx(kl).epsilon(1e-10));
  const TensorValues plain = evaluate(load_op("gpn.vb_khat"), dims, targets);
  for (const char* name : {"khat", "beta"}) {
    for (std::size_t i = 0; i < plain.at(name).size(); ++i)
      CHECK(white.at(name)[i] == doctest::Approx(plain.at(name)[i]).epsilon(1e-8));
  }
}

/// Every variant that is more than a choice of numbers.
std::vector<GpnOptions> variants() {
  std::vector<GpnOptions> all;
  for (const Propagate propagate : {Propagate::Mean, Propagate::Variance, Propagate::Covariance, Propagate::Sample}) {
    for (const Task task : {Task::Classification, Task::Regression}) {
      GpnOptions options = small_options(propagate, task);
      options.sizes[2] = options.sizes.back() = 2;
      options.train_points = false;
      options.input_connected = true;
      if (propagate != Propagate::Mean) options.input_variance = {0.1, 0.2, 0.3};
      all.push_back(options);
      options.inference = GpnOptions::Inference::VariationalFull;
      options.covariance = GpnOptions::Covariance::Equispaced;
      options.likelihood = GpnOptions::Likelihood::Predictive;
      options.targets = GpnOptions::Targets::Tanh;
      all.push_back(options);
      options.inference = GpnOptions::Inference::VariationalDiagonal;
      options.input_connected = false;
      options.input_variance.clear();
      options.sharing = GpnOptions::Sharing::Group;
      options.targets = GpnOptions::Targets::Normal;
      all.push_back(options);
    }
  }
  return all;
}

TEST_CASE("every variant of a network is verified, and its gradient is its slope") {
  for (const GpnOptions& options : variants()) {
    CAPTURE(static_cast<int>(options.propagate));
    CAPTURE(static_cast<int>(options.inference));
    const Network network = gpn_network(options);
    for (const Program* program : {&network.train, &network.predict, &network.functions})
      CHECK_NOTHROW(verify(*program));
    check_slope(network, draw_inputs(network, 3, 2, options.task == Task::Classification));
  }
}

TEST_CASE("beta-NLL has the gradient of a likelihood whose weights are held, and may begin with the means") {
  for (const Propagate propagate : {Propagate::Variance, Propagate::Covariance}) {
    GpnOptions options = small_options(propagate, Task::Regression);
    options.likelihood = GpnOptions::Likelihood::BetaPredictive;
    options.train_sigma = true;
    const Network network = gpn_network(options);
    TensorValues inputs = draw_inputs(network, 3, 3, false);
    const std::vector<double> held = run(network.predict, inputs).at("variance"), target = inputs.at("target");
    const auto by_hand = [&](const TensorValues& at, const auto& term) {
      const TensorValues predicted = run(network.predict, at);
      double sum = 0;
      for (std::size_t i = 0; i < held.size(); ++i)
        sum += term(i, predicted.at("variance")[i], target[i] - predicted.at("mean")[i]);
      return sum / (2 * kSamples);
    };
    const auto beta_nll = [&](const TensorValues& at) {
      return by_hand(at, [&](std::size_t i, double variance, double error) {
        return std::sqrt(held[i]) * (std::log(2 * std::numbers::pi * variance) + error * error / variance);
      });
    };
    const auto half_squared_error = [&](const TensorValues& at) {
      return by_hand(at, [](std::size_t, double, double error) { return error * error; });
    };
    CHECK(run(network.train, inputs).at("loss")[0] == doctest::Approx(beta_nll(inputs)));
    check_slope(network, inputs, beta_nll);
    inputs["nll_weight"] = {0};
    CHECK(run(network.train, inputs).at("loss")[0] == doctest::Approx(half_squared_error(inputs)));
    check_slope(network, inputs, half_squared_error);
    options.likelihood = GpnOptions::Likelihood::Predictive;
    check_close(run(network.validate, inputs).at("loss"), run(gpn_network(options).train, inputs).at("loss"));
  }
}

TEST_CASE("covariances by a series are the exact ones, as far as its bound says") {
  GpnOptions options = small_options(Propagate::Covariance, Task::Classification);
  options.train_points = false;
  const Network exact = gpn_network(options);
  options.covariance = GpnOptions::Covariance::Series;
  options.series_terms = 16;
  const Network series = gpn_network(options);
  const TensorValues inputs = draw_inputs(exact, 3, 2, true);
  const TensorValues got = run(series.predict, inputs);
  check_close(got.at("layer2.covariance"), run(exact.predict, inputs).at("layer2.covariance"), 1e-6);
  for (const double bound : got.at("layer2.error_bound")) CHECK(bound < 1e-3);
  check_slope(series, inputs);
}

TEST_CASE("the functions of a network are what its layers compute") {
  for (const Propagate propagate : {Propagate::Mean, Propagate::Variance}) {
    GpnOptions options = small_options(propagate, Task::Regression);
    options.sizes = {1, 2};
    options.sharing = GpnOptions::Sharing::Layer;
    const Network network = gpn_network(options);
    TensorValues inputs = draw_inputs(network, 1, 2, false);
    inputs["layer1.W"] = {1, 1};
    const TensorValues functions = run(network.functions, inputs);
    check_close(functions.at("layer1.mean"), run(network.predict, inputs).at("mean"));
    CHECK(functions.at("layer1.targets")[1] == inputs.at("layer1.U")[0]);
    CHECK(functions.at("layer1.points").size() == 10);
    if (propagate == Propagate::Mean) continue;
    const double noise = 0.01;  // sigma^2
    for (std::size_t i = 0; i < 6; ++i)
      CHECK(functions.at("layer1.spread")[i] + noise ==
            doctest::Approx(run(network.predict, inputs).at("variance")[i]));
  }
}

TEST_CASE("the mean over draws is what moments say") {
  GpnOptions options = small_options(Propagate::Sample, Task::Regression);
  options.sizes = {1, 1, 1};
  const Network network = gpn_network(options);
  TensorValues inputs = draw_inputs(network, 1, 1, false);
  inputs["layer2.W"] = {0.7};
  const std::vector<double> want = run(network.predict, inputs).at("mean");
  std::vector<double> mean(kSamples);
  constexpr int kDraws = 4000;
  TensorValues used = inputs;
  std::erase_if(used, [&](const auto& item) { return !network.train.find_input(item.first); });
  for (int step = 0; step < kDraws; ++step) {
    const TensorValues drawn = evaluate(network.train, {{"S", kSamples}}, used, 1, static_cast<std::uint64_t>(step));
    for (std::size_t s = 0; s < kSamples; ++s) mean[s] += drawn.at("mean")[s] / kDraws;
  }
  for (std::size_t s = 0; s < kSamples; ++s) CHECK(mean[s] == doctest::Approx(want[s]).epsilon(0.02));
}

}  // namespace
