// A user's model becomes a Network.
#include "ops/model.h"

#include <doctest/doctest.h>

#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "ops/training.h"

using namespace moxie;

namespace {

const std::string kModel = R"(dim S dynamic, I, H = 2
index s:S, i:I, h:H
input x[S,I], target[S]
parameter W[H,I] init glorot, v[H] init normal(0.1)
let rate[s,h] = tanh(sum[i](W[h,i]*x[s,i]))
let new.W[s] = sum[h](v[h]*rate[s,h])
predict mean[s] = new.W[s]
predict more[s,h] = rate[s,h]
loss nll = sum[s]((target[s] - mean[s])^2)/S
)";
const SampleShape kRows = {Task::Regression, 3, {}, 1};

std::vector<std::string> names_of_outputs(const Program& program) {
  std::vector<std::string> names;
  for (const Definition& definition : program.definitions) {
    if (definition.output) names.push_back(definition.name);
  }
  return names;
}

std::string refusal(const Program& model, const SampleShape& rows, const DimValues& dims = {}) {
  try {
    model_network(model, rows, dims);
  } catch (const ModelError& error) {
    return error.name() + ": " + error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("a model's network trains the loss and predicts what is predicted") {
  const Network network = model_network(parse(kModel), kRows);
  CHECK(names_of_outputs(network.train) == std::vector<std::string>{"loss"});
  CHECK(names_of_outputs(network.predict) == std::vector<std::string>{"mean", "more"});
  CHECK(network.train.find_input("target"));
  CHECK_FALSE(network.predict.find_input("target"));
  CHECK(network.parameters ==
        std::vector<Parameter>{{"W", {2, 3}, Initialiser::glorot()}, {"v", {2}, Initialiser::normal(0.1)}});
  CHECK(network.renewals.empty());
  CHECK(network.validate.definitions.empty());
}

TEST_CASE("names of the model and of the training step do not meet") {
  const Network network = model_network(parse(kModel), kRows);
  const TrainingStep step = training_step(differentiate(network.train, {"loss"}, {"W", "v"}), network.parameters);
  verify(step.program);
  const TensorValues values = {
      {"x", {1, 2, 3, 4, 5, 6}}, {"target", {0.5, -1}}, {"W", {1, 0, 0, 0, 1, 0}}, {"v", {2, -1}}};
  const auto loss = evaluate(network.train, {{"S", 2}}, values).at("loss");
  const auto y = [](double a, double b) { return 2 * std::tanh(a) - std::tanh(b); };
  const double first = 0.5 - y(1, 2), second = -1 - y(4, 5);
  CHECK(loss[0] == doctest::Approx((first * first + second * second) / 2));
}

TEST_CASE("states are renewed, and validation leaves them alone") {
  const Network network = model_network(
      parse(
          "dim S dynamic, I\nindex s:S, i:I\ninput x[S,I], target[S]\nparameter w[I] init ones\nstate a[I] init zeros\n"
          "predict mean[s] = sum[i](w[i]*(x[s,i] - a[i]))\nloss l = sum[s]((target[s] - mean[s])^2)/S\n"
          "next a[i] = sum[s](x[s,i])/S\n"),
      kRows);
  CHECK(network.renewals == Renewals{{"next.a", "a"}});
  CHECK(names_of_outputs(network.train) == std::vector<std::string>{"loss", "next.a"});
  CHECK(names_of_outputs(network.validate) == std::vector<std::string>{"loss"});
  CHECK(network.parameters[1] == Parameter{"a", {3}, Initialiser::zeros(), false});
}

TEST_CASE("rows that do not fit a model are refused with the name that they do not fit") {
  const Program model = parse(kModel);
  CHECK(refusal(model, kRows).empty());
  CHECK(refusal(model, {Task::Regression, 3, {}, 2}) ==
        "target: `target` has 1 numbers for each sample, but the data has 2 targets");
  CHECK(refusal(model, {Task::Classification, 3, {}, 1}) == "mean: the data set's targets are classes");
  CHECK(refusal(model, kRows, {{"I", 4}}) == "I: dim `I` is 4 here, but the data has 3 features");
  CHECK(refusal(model, kRows, {{"Q", 4}}) == ": there is no dim 'Q' to give a value");
  CHECK(refusal(model, kRows, {{"H", 4}}) == "H: dim `H` is 2 here, but --dim gives it 4");
}

TEST_CASE("images have axes") {
  const Program model = parse(
      "dim S dynamic, Y, X, C, K\nindex s:S, y:Y, u:X, c:C, k:K\ninput x[S,Y,X,C], target[S,K]\nparameter w[Y,X,C,K] "
      "init "
      "he\npredict probability[s,k] = sigmoid(sum[y,u,c](w[y,u,c,k]*x[s,y,u,c]))\n"
      "loss l = -sum[s,k](target[s,k]*log(probability[s,k]))/S\n");
  const Network network = model_network(model, {Task::Classification, 30, {5, 2, 3}, 4});
  CHECK(network.parameters[0].shape == std::vector<std::int64_t>{5, 2, 3, 4});
}
