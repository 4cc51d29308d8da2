#include "ops/network.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "tests/ops/small_network.h"

namespace {

using namespace moxie;
using namespace moxie::small;
using Propagate = GpnOptions::Propagate;

std::vector<double> exponentials(std::vector<double> values) {
  for (double& value : values) value = std::exp(value);
  return values;
}

/// The inputs of gpn.network_* that a network of two GPN layers stands for.
TensorValues as_written_out(const TensorValues& network) {
  TensorValues inputs = {{"x", network.at("x")}, {"target", network.at("target")}};
  for (const std::string layer : {"1", "2"}) {
    const std::string p = "layer" + layer + ".";
    for (const std::string name : {"W", "V", "U"}) inputs[name + layer] = network.at(p + name);
    for (const std::string name : {"noise", "lambda", "sigma"})
      inputs[name + layer] = exponentials(network.at(fmt::format("{}log_{}", p, name)));
  }
  if (network.contains("readout.W")) inputs["W3"] = network.at("readout.W");
  return inputs;
}

void check_against(const char* op, const GpnOptions& options, const DimValues& dims, const char* loss,
                   const char* mean) {
  CAPTURE(op);
  const Network network = gpn_network(options);
  const TensorValues inputs = draw_inputs(network, 3, options.sizes.back(), options.task == Task::Classification);
  const TensorValues want = evaluate(load_op(op), dims, as_written_out(inputs));
  const TensorValues got = run(network.train, inputs);
  check_close(got.at("loss"), want.at(loss), network.jitter.empty() ? 1e-12 : 1e-5);
  check_close(got.at(mean), want.at(mean));
  check_close(run(network.predict, inputs).at(mean), want.at(mean));
}

TEST_CASE("composed GPN networks are the written-out ones") {
  const DimValues classes = {{"S", kSamples}, {"I", 3}, {"N", 4}, {"M", 3}, {"R", 5}, {"D", 2}};
  const DimValues regression = {{"S", kSamples}, {"I", 3}, {"N", 4}, {"M", 3}, {"R", 5}};
  GpnOptions diagonal = small_options(Propagate::Variance, Task::Classification);
  diagonal.sigma_points = GpnOptions::SigmaPoints::Logits;
  check_against("gpn.network_diag", diagonal, classes, "loss", "logit_mean");
  check_against("gpn.network_full", small_options(Propagate::Covariance, Task::Classification), classes, "loss",
                "logit_mean");
  check_against("gpn.network_regression", small_options(Propagate::Variance, Task::Regression), regression, "nll",
                "mean");
}

TEST_CASE("fixed inducing points give what equally spaced trained ones give") {
  for (const Propagate propagate : {Propagate::Mean, Propagate::Variance, Propagate::Covariance}) {
    for (const Task task : {Task::Classification, Task::Regression}) {
      GpnOptions options = small_options(propagate, task);
      options.penalty = 0.1;
      const Network trained = gpn_network(options);
      options.train_points = false;
      const Network fixed = gpn_network(options);
      TensorValues inputs = draw_inputs(fixed, 3, options.sizes.back(), task == Task::Classification);
      for (const Parameter& parameter : trained.parameters) {
        if (parameter.initialiser.kind != Initialiser::Kind::Linspace) continue;
        const std::int64_t units = parameter.shape.back();
        for (std::int64_t i = 0; i < element_count(parameter); ++i) {
          const std::int64_t point = i / units;
          inputs[parameter.name].push_back(-2.0 + static_cast<double>(point));
        }
      }
      check_close(run(fixed.train, inputs).at("loss"), run(trained.train, inputs).at("loss"));
    }
  }
}

void check_distribution(const std::vector<double>& probability, std::size_t classes) {
  for (std::size_t s = 0; s < probability.size(); s += classes) {
    double total = 0;
    for (std::size_t d = 0; d < classes; ++d) {
      CHECK(probability[s + d] > 0);
      total += probability[s + d];
    }
    CHECK(total == doctest::Approx(1));
  }
}

TEST_CASE("the paper's network is built, verified and evaluated in every mode") {
  for (const Propagate propagate : {Propagate::Mean, Propagate::Variance, Propagate::Covariance}) {
    GpnOptions options;
    options.sizes = {4, 6, 3, 5};
    options.propagate = propagate;
    const Network network = gpn_network(options);
    CHECK_NOTHROW(verify(network.train));
    CHECK_NOTHROW(verify(network.predict));
    CHECK(parse(print(network.train)).definitions.size() == network.train.definitions.size());
    const TensorValues inputs = draw_inputs(network, 4, 5, true);
    CHECK(std::isfinite(run(network.train, inputs).at("loss")[0]));
    check_distribution(run(network.predict, inputs).at("probability"), 5);
  }
}

TEST_CASE("the gradient of a whole network is its slope") {
  for (const Propagate propagate : {Propagate::Mean, Propagate::Variance, Propagate::Covariance}) {
    for (const Task task : {Task::Classification, Task::Regression}) {
      GpnOptions options = small_options(propagate, task);
      options.penalty = 0.1;
      options.train_lambda = options.train_sigma = true;
      options.sharing = GpnOptions::Sharing::Layer;
      const Network network = gpn_network(options);
      check_slope(network, draw_inputs(network, 3, options.sizes.back(), task == Task::Classification));
    }
  }
  const Network mlp = mlp_network({{4, 6, 5}, Task::Classification, "tanh", 0.5});
  check_slope(mlp, draw_inputs(mlp, 4, 5, true));
}

TEST_CASE("parameters start and are trained as the options say") {
  GpnOptions options;
  options.sizes = {4, 6, 5};
  const Network network = gpn_network(options);
  const auto find = [&](std::string_view name) {
    const auto it = std::ranges::find(network.parameters, name, &Parameter::name);
    REQUIRE(it != network.parameters.end());
    return *it;
  };
  CHECK(find("layer1.W") == Parameter{"layer1.W", {4, 6}, {Initialiser::Kind::Glorot}});
  CHECK(find("layer1.U") == Parameter{"layer1.U", {14, 6}, Initialiser::normal(1)});
  CHECK(find("layer1.h").initialiser.low == doctest::Approx(4.0 / 13));
  CHECK_FALSE(find("layer1.V0").trainable);
  CHECK_FALSE(find("layer1.log_sigma").trainable);
  CHECK(find("readout.W").shape == std::vector<std::int64_t>{6, 5});
  for (const Parameter& parameter : network.parameters) {
    CHECK(network.train.find_input(parameter.name) != nullptr);
    CHECK(network.predict.find_input(parameter.name) != nullptr);
  }
}

TEST_CASE("perceptrons of every activation") {
  for (const std::string activation :
       {"tanh", "sigmoid", "relu", "leaky_relu", "prelu", "elu", "selu", "swish", "identity"}) {
    CAPTURE(activation);
    const Network network = mlp_network({{4, 6, 5}, Task::Classification, activation});
    CHECK_NOTHROW(verify(network.train));
    TensorValues inputs = draw_inputs(network, 4, 5, true);
    check_distribution(run(network.predict, inputs).at("probability"), 5);
    inputs["readout.W"].assign(30, 0);
    CHECK(run(network.train, inputs).at("loss")[0] == doctest::Approx(std::log(5)));
  }
}

TEST_CASE("fast dropout trains the function that predicts") {
  const Network plain = mlp_network({{4, 6, 2}, Task::Regression});
  const Network dropped = mlp_network({{4, 6, 2}, Task::Regression, "tanh", 0.5});
  const TensorValues inputs = draw_inputs(plain, 4, 2, false);
  CHECK(dropped.parameters == plain.parameters);
  CHECK(run(dropped.train, inputs).at("loss") != run(plain.train, inputs).at("loss"));
  CHECK(run(dropped.train, inputs).at("mean") == run(dropped.predict, inputs).at("mean"));
}

TEST_CASE("options out of range are refused") {
  GpnOptions options;
  options.sizes = {4, 5};
  CHECK_THROWS_WITH_AS(gpn_network(options),
                       doctest::Contains("sizes of a GPN network are 4x5, but it needs at least 3"), TypeError);
  options.sizes = {4, 6, 5};
  options.noise = 0;
  CHECK_THROWS_WITH_AS(gpn_network(options), doctest::Contains("the noise of a GPN network is 0"), TypeError);
  options.noise = 0.3;
  options.sharing = GpnOptions::Sharing::Group;
  options.groups = 4;
  CHECK_THROWS_WITH_AS(gpn_network(options), doctest::Contains("the 6 units of layer 1 do not fall into 4 groups"),
                       TypeError);
  options.groups = 3;
  options.input_variance = {0.1, 0.1};
  CHECK_THROWS_WITH_AS(gpn_network(options),
                       doctest::Contains("2 input variances were given, but the GPN network has 4"), TypeError);
  options.input_variance = {-1};
  CHECK_THROWS_WITH_AS(gpn_network(options), doctest::Contains("an input variance of a GPN network is -1"), TypeError);
  options.propagate = Propagate::Mean;
  CHECK_THROWS_WITH_AS(gpn_network(options), doctest::Contains("no use for the variance of its input"), TypeError);
  options.propagate = Propagate::Covariance;
  options.input_variance.clear();
  options.train_points = true;
  options.covariance = GpnOptions::Covariance::Equispaced;
  CHECK_THROWS_WITH_AS(gpn_network(options), doctest::Contains("do not stay equally spaced"), TypeError);
  CHECK_THROWS_WITH_AS(mlp_network({{4, -1}}), doctest::Contains("4x-1"), TypeError);
  CHECK_THROWS_WITH_AS(mlp_network({{4, 2}, Task::Regression, "tan"}), doctest::Contains("unknown activation 'tan'"),
                       TypeError);
  CHECK_THROWS_WITH_AS(mlp_network({{4, 2}, Task::Regression, "relu", 0.5}), doctest::Contains("tanh only"), TypeError);
}

}  // namespace
