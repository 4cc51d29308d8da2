// Networks as model files: what is printed and read again is the network that was printed.
#include <doctest/doctest.h>

#include <algorithm>

#include "ops/model.h"
#include "ops/network_model.h"
#include "ops/slice.h"

using namespace moxie;

namespace {

/// The part of a name that is not a prefix of models or of what differs between training and prediction.
std::string stem(std::string name) {
  for (const char* prefix : {"model.", "train.", "prediction.", "validation.", "next."}) {
    if (name.starts_with(prefix)) name.erase(0, std::string(prefix).size());
  }
  return name == kValidationLoss ? "loss" : name;
}

Program with_stems(const Program& program) {
  TensorNames names;
  for (const Definition& definition : program.definitions) names[definition.name] = stem(definition.name);
  return renamed(program, names);
}

/// The same definitions, but for names of axes and numbers of scans: those of training in the same order, since bits
/// may depend on it.
void check_same(const Program& network, const Program& found, bool in_order) {
  const Program wanted = parse(print(network));  // which brings numbers together that included dims have become
  REQUIRE(wanted.definitions.size() == found.definitions.size());
  for (std::size_t k = 0; k < wanted.definitions.size(); ++k) {
    const Definition& a = wanted.definitions[k];
    CAPTURE(a.name);
    if (in_order) REQUIRE(found.definitions[k].name == a.name);
    const Definition* b = found.find_definition(a.name);
    REQUIRE(b != nullptr);
    CHECK(b->body == a.body);
    CHECK(b->dtype == a.dtype);
    CHECK(b->domain == a.domain);
    CHECK(b->scan.has_value() == a.scan.has_value());
    CHECK(b->recomputed == a.recomputed);
  }
}

std::vector<std::string> outputs_of(const Program& program) {
  std::vector<std::string> outputs;
  for (const Definition& definition : program.definitions) {
    if (definition.output) outputs.push_back(definition.name);
  }
  return outputs;
}

/// What the loss needs, under the network's own names.
Program loss_of(const Program& program) {
  const Program plain = with_stems(program);
  std::vector<std::string> outputs = {"loss"};
  if (plain.find_definition("kl")) outputs.emplace_back("kl");
  return slice(plain, outputs);
}

void check_file(const Network& network, const SampleShape& rows) {
  const std::string text = print(network_model(network, ""));
  CAPTURE(text);
  const Network found = model_network(parse(text, "my.mox"), rows);
  REQUIRE(found.parameters == network.parameters);
  REQUIRE(found.renewals.size() == network.renewals.size());
  for (std::size_t k = 0; k < found.renewals.size(); ++k) CHECK(found.renewals[k].second == network.renewals[k].second);
  check_same(loss_of(network.train), loss_of(found.train), true);
  check_same(slice(network.predict, outputs_of(network.predict)), with_stems(found.predict), false);
  if (!found.validate.definitions.empty()) check_same(loss_of(network.validate), loss_of(found.validate), false);
}

const SampleShape kClasses{Task::Classification, 5, {}, 3}, kValues{Task::Regression, 5, {}, 3};

}  // namespace

TEST_CASE("a multi-layer perceptron is a model file") {
  for (const Task task : {Task::Classification, Task::Regression}) {
    const SampleShape& rows = task == Task::Regression ? kValues : kClasses;
    check_file(mlp_network({{5, 4, 3}, task, "tanh", 0}), rows);
    check_file(mlp_network({{5, 4, 4, 3}, task, "prelu", 0}), rows);
    check_file(mlp_network({{5, 4, 3}, task, "tanh", 0.25}), rows);
  }
}

TEST_CASE("a network of Gaussian process neurons is a model file") {
  using Propagate = GpnOptions::Propagate;
  GpnOptions options;
  options.sizes = {5, 4, 4, 3};
  options.inducing_points = 3;
  for (const Task task : {Task::Classification, Task::Regression}) {
    options.task = task;
    for (const Propagate propagate : {Propagate::Mean, Propagate::Variance, Propagate::Covariance, Propagate::Sample}) {
      options.propagate = propagate;
      for (const bool trains : {false, true}) {
        options.train_points = options.train_lambda = options.train_sigma = trains;
        check_file(gpn_network(options), task == Task::Regression ? kValues : kClasses);
      }
    }
  }
}

TEST_CASE(
    "so is one with a posterior, with shared observations, with uncertain inputs, with targets that start as a "
    "function") {
  GpnOptions options;
  options.sizes = {5, 4, 4, 3};
  options.inducing_points = 3;
  options.input_variance = {0.5};
  options.sharing = GpnOptions::Sharing::Group;
  options.targets = GpnOptions::Targets::Tanh;
  check_file(gpn_network(options), kClasses);
  options.inference = GpnOptions::Inference::VariationalFull;
  check_file(gpn_network(options), kClasses);
  options.inference = GpnOptions::Inference::VariationalDiagonal;
  options.targets = GpnOptions::Targets::Normal;
  options.covariance = GpnOptions::Covariance::Series;
  options.propagate = GpnOptions::Propagate::Covariance;
  check_file(gpn_network(options), kClasses);
}

TEST_CASE("a network whose validation has another loss than its training is a model file") {
  GpnOptions options;
  options.sizes = {5, 4, 3};
  options.task = Task::Regression;
  options.likelihood = GpnOptions::Likelihood::BetaPredictive;
  const Network network = gpn_network(options);
  CHECK(print(network_model(network, "")).find("output validation_loss") != std::string::npos);
  check_file(network, kValues);
}

TEST_CASE("a network of noisy activations is a model file, and so are convolutions with running averages") {
  using Evaluation = ProbActOptions::Evaluation;
  ProbActOptions options;
  options.sizes = {5, 4, 3};
  options.sigma_start = 0.5;
  for (const Evaluation evaluation : {Evaluation::Sample, Evaluation::Mean, Evaluation::Moments}) {
    options.evaluation = evaluation;
    options.task = Task::Classification;
    check_file(probact_network(options), kClasses);
    options.task = Task::Regression;
    check_file(probact_network(options), kValues);
  }
  options.evaluation = Evaluation::Mean;
  options.task = Task::Classification;
  options.sizes = {64, 3};
  options.image = {8, 8, 1};
  options.architecture = ProbActOptions::Architecture::VggSmall;
  check_file(probact_network(options), {Task::Classification, 64, {8, 8, 1}, 3});
  options.architecture = ProbActOptions::Architecture::TextCnn;
  options.sizes = {7, 3};
  options.vocabulary = 9;
  check_file(probact_network(options), {Task::Classification, 7, {}, 3});
}

TEST_CASE("recurrent networks are model files") {
  using Cell = SpGruOptions::Cell;
  for (const Cell cell : {Cell::Gru, Cell::GammaGru, Cell::PoissonGru, Cell::Lstm, Cell::DropoutLstm}) {
    SpGruOptions options{2, 2, 3, 4, cell};
    check_file(sp_gru_network(options), {Task::Regression, 6, {}, 6});
  }
}

TEST_CASE("a state that is its own next value is a setting: no step renews it") {
  const Program model = parse(
      "dim S dynamic, I\nindex s:S, i:I\ninput x[S,I], target[S]\nparameter w[I] init normal(0.1)\n"
      "state scale[I] init constant(2)\nnext scale[i] = scale[i]\n"
      "predict mean[s] = sum[i](scale[i]*w[i]*x[s,i])\nloss error = sum[s]((target[s] - mean[s])^2)/S\n"
      "output validation_loss = sum[s](abs(target[s] - mean[s]))/S\n");
  const Network network = model_network(model, {Task::Regression, 2, {}, 1});
  CHECK(network.renewals.empty());
  CHECK_FALSE(network.parameters[1].trainable);
  CHECK(network.validate.find_definition("loss")->body == model.find_definition("validation_loss")->body);
}
