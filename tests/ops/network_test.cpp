#include "ops/network.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/ir/evaluate.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"

namespace {

using namespace moxie;
using Propagate = GpnOptions::Propagate;

constexpr std::int64_t kSamples = 3;

std::vector<double> draw(std::mt19937_64& random, std::int64_t count, double low, double high) {
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(count));
  std::ranges::generate(values, [&] { return uniform(random); });
  return values;
}

std::int64_t element_count(const Parameter& parameter) {
  std::int64_t count = 1;
  for (const std::int64_t extent : parameter.shape) count *= extent;
  return count;
}

/// Inputs and parameters: constants as they are meant to start, everything else at random; one-hot targets, or any for
/// regression.
TensorValues draw_inputs(const Network& network, std::int64_t features, std::int64_t outputs, bool one_hot) {
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

TensorValues run(const Program& program, TensorValues inputs) {
  std::erase_if(inputs, [&](const auto& item) { return !program.find_input(item.first); });
  return evaluate(program, {{"S", kSamples}}, inputs);
}

void check_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-12) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(tolerance));
}

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
      inputs[name + layer] = exponentials(network.at(p + "log_" + name));
  }
  if (network.contains("readout.W")) inputs["W3"] = network.at("readout.W");
  return inputs;
}

GpnOptions small_options(Propagate propagate, Task task) {
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
        for (std::int64_t i = 0; i < element_count(parameter); ++i)
          inputs[parameter.name].push_back(-2.0 + static_cast<double>(i / units));
      }
      check_close(run(fixed.train, inputs).at("loss"), run(trained.train, inputs).at("loss"));
    }
  }
}

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

/// The change of the loss along a direction, by the gradient and by central differences.
void check_slope(const Network& network, const TensorValues& inputs) {
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
  const double difference = run(network.train, up).at("loss")[0] - run(network.train, down).at("loss")[0];
  CHECK(slope == doctest::Approx(difference / (2 * kStep)).epsilon(1e-6));
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
  CHECK(find("layer1.U") == Parameter{"layer1.U", {14, 6}, {Initialiser::Kind::Normal}});
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
