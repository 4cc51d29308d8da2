#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "ops/network.h"

namespace {

using namespace moxie;
using Architecture = ProbActOptions::Architecture;
using Evaluation = ProbActOptions::Evaluation;
using Sharing = ProbActOptions::Sharing;

constexpr std::int64_t kSamples = 2;

ProbActOptions dense_options() {
  ProbActOptions options;
  options.sizes = {4, 5, 3, 2};
  options.sigma_start = 0.5;
  return options;
}

ProbActOptions image_options() {
  ProbActOptions options;
  options.architecture = Architecture::VggSmall;
  options.image = {4, 6, 1};
  options.sizes = {24, 2};
  return options;
}

ProbActOptions text_options() {
  ProbActOptions options;
  options.architecture = Architecture::TextCnn;
  options.vocabulary = 4;
  options.sizes = {5, 2};
  options.sigma_start = 0.5;
  return options;
}

/// Constants as they start, all else at random.
TensorValues draw_inputs(const Network& network, std::int64_t features, std::int64_t outputs) {
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  TensorValues values;
  const auto fill = [&](const std::string& name, std::int64_t count, const Initialiser& start) {
    std::vector<double>& all = values[name];
    for (std::int64_t i = 0; i < count; ++i)
      all.push_back(start.kind == Initialiser::Kind::Constant ? start.low : uniform(generator));
  };
  fill("x", kSamples * features, {Initialiser::Kind::Normal});
  fill("target", kSamples * outputs, {Initialiser::Kind::Normal});
  for (const Parameter& parameter : network.parameters) {
    std::int64_t count = 1;
    for (const std::int64_t extent : parameter.shape) count *= extent;
    fill(parameter.name, count, parameter.initialiser);
  }
  return values;
}

TensorValues run(const Program& program, TensorValues inputs, std::uint64_t step = 0) {
  std::erase_if(inputs, [&](const auto& item) { return !program.find_input(item.first); });
  return evaluate(program, {{"S", kSamples}}, inputs, 1, step);
}

const Parameter* find(const Network& network, const std::string& name) {
  for (const Parameter& parameter : network.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

TEST_CASE("who shares a parameter decides about its shape") {
  ProbActOptions options = image_options();
  const auto shape = [&](Sharing sharing, const char* name) {
    options.sigma = options.mean = sharing;
    options.sigma_start = 1;
    const Network network = probact_network(options);
    verify(network.train);
    verify(network.predict);
    verify(network.validate);
    const Parameter* parameter = find(network, name);
    return parameter ? parameter->shape : std::vector<std::int64_t>{-1};
  };
  CHECK(shape(Sharing::Fixed, "layer1.sigma") == std::vector<std::int64_t>{-1});
  CHECK(shape(Sharing::Single, "layer1.sigma").empty());
  CHECK(shape(Sharing::Channel, "layer1.slope") == std::vector<std::int64_t>{32});
  CHECK(shape(Sharing::Element, "layer2.shift") == std::vector<std::int64_t>{2, 3, 64});
  options.sigma_bound = 2;
  CHECK(shape(Sharing::Element, "layer1.k") == std::vector<std::int64_t>{4, 6, 32});
}

TEST_CASE("noise is drawn in training, and in prediction only where asked for") {
  ProbActOptions options = dense_options();
  for (const Evaluation evaluation : {Evaluation::Mean, Evaluation::Sample}) {
    options.evaluation = evaluation;
    const Network network = probact_network(options);
    const TensorValues inputs = draw_inputs(network, 4, 2);
    const auto first = run(network.predict, inputs, 0).at("probability");
    CHECK((first == run(network.predict, inputs, 1).at("probability")) == (evaluation == Evaluation::Mean));
    CHECK(run(network.train, inputs, 0).at("loss") != run(network.train, inputs, 1).at("loss"));
  }
  options.noise = false;
  const Network plain = probact_network(options);
  const TensorValues inputs = draw_inputs(plain, 4, 2);
  CHECK(run(plain.train, inputs).at("loss") == run(plain.validate, inputs).at("loss"));
  CHECK(find(plain, "layer1.sigma") == nullptr);
}

TEST_CASE("moments in closed form are those of many samples") {
  ProbActOptions options = dense_options();
  options.sizes = {4, 30, 2};  // one layer with noise: then only that of the read-out is normal, and exactly
  options.task = Task::Regression;
  options.mean = Sharing::Channel;
  options.evaluation = Evaluation::Moments;
  const Network network = probact_network(options);
  const TensorValues inputs = draw_inputs(network, 4, 2);
  const TensorValues moments = run(network.predict, inputs);
  options.evaluation = Evaluation::Sample;
  const Network sampling = probact_network(options);
  constexpr int kDraws = 4000;
  std::vector<double> sum(4), squares(4);
  for (int k = 0; k < kDraws; ++k) {
    const std::vector<double> drawn = run(sampling.predict, inputs, static_cast<std::uint64_t>(k)).at("mean");
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      sum[i] += drawn[i];
      squares[i] += drawn[i] * drawn[i];
    }
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double mean = sum[i] / kDraws, variance = squares[i] / kDraws - mean * mean;
    CHECK(moments.at("variance")[i] == doctest::Approx(variance).epsilon(0.1));
    CHECK(std::abs(moments.at("mean")[i] - mean) < 4 * std::sqrt(variance / kDraws));
  }
}

TEST_CASE("without noise and slopes the moments are the plain network") {
  ProbActOptions options = dense_options();
  options.noise = false;
  const Network plain = probact_network(options);
  options.evaluation = Evaluation::Moments;
  const Network moments = probact_network(options);
  const TensorValues inputs = draw_inputs(plain, 4, 2);
  const auto want = run(plain.predict, inputs).at("logit_mean"), got = run(moments.predict, inputs).at("logit_mean");
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-9));
}

TEST_CASE("batch normalisation trains by the batch and predicts by running averages") {
  const Network network = probact_network(image_options());
  CHECK(network.renewals.size() == 6);
  TensorValues inputs = draw_inputs(network, 24, 2);
  const TensorValues trained = run(network.train, inputs);
  for (const auto& [output, parameter] : network.renewals) {
    CAPTURE(parameter);
    CHECK(find(network, parameter)->trainable == false);
    CHECK(trained.at(output) != inputs.at(parameter));
  }
  const auto before = run(network.predict, inputs).at("logit_mean");
  for (const auto& [output, parameter] : network.renewals) inputs[parameter] = trained.at(output);
  CHECK(run(network.predict, inputs).at("logit_mean") != before);
}

TEST_CASE("convolutional networks keep maps with odd sides") {
  const Network network = probact_network(image_options());
  CHECK(find(network, "readout.F")->shape == std::vector<std::int64_t>{2, 3, 128, 2});
  ProbActOptions options = image_options();
  options.architecture = Architecture::Vgg16;
  options.image = {32, 32, 3};
  options.sizes = {3072, 10};
  CHECK(find(probact_network(options), "readout.F")->shape == std::vector<std::int64_t>{1, 1, 512, 10});
}

TEST_CASE("a network for texts shares its parameters as the others do") {
  ProbActOptions options = text_options();
  const auto shape = [&](const char* name) { return find(probact_network(options), name)->shape; };
  CHECK(shape("embedding.E") == std::vector<std::int64_t>{4, 32});
  CHECK(shape("layer1.F") == std::vector<std::int64_t>{3, 32, 64});
  CHECK(shape("layer2.F") == std::vector<std::int64_t>{3, 64, 64});
  CHECK(shape("readout.W") == std::vector<std::int64_t>{64, 2});
  CHECK(shape("layer1.sigma") == std::vector<std::int64_t>{64});
  options.sigma = options.mean = Sharing::Element;
  options.sigma_bound = 2;
  CHECK(shape("layer2.k") == std::vector<std::int64_t>{5, 64});
  CHECK(shape("layer1.slope") == std::vector<std::int64_t>{5, 64});
}

TEST_CASE("a network for texts sees the order of words, but no words behind the last") {
  ProbActOptions options = text_options();
  options.noise = false;
  const Network network = probact_network(options);
  TensorValues inputs = draw_inputs(network, 5, 2);
  inputs["x"] = {1, 2, 3, 0, 0, 3, 2, 1, 0, 0};
  const auto logits = run(network.predict, inputs).at("logit_mean");
  CHECK(logits[0] != doctest::Approx(logits[2]));
  const std::size_t channels = 32;
  for (std::size_t e = 0; e < channels; ++e) inputs.at("embedding.E")[3 * channels + e] += 1;  // of word 4
  CHECK(run(network.predict, inputs).at("logit_mean") == logits);
  inputs["x"][3] = 4;
  CHECK(run(network.predict, inputs).at("logit_mean")[0] != logits[0]);
}

TEST_CASE("a network for texts takes every activation, and noise where it is asked for") {
  for (const char* activation :
       {"relu", "leaky_relu", "prelu", "elu", "selu", "swish", "sigmoid", "tanh", "identity"}) {
    CAPTURE(activation);
    ProbActOptions options = text_options();
    options.activation = activation;
    options.evaluation = Evaluation::Sample;
    const Network network = probact_network(options);
    TensorValues inputs = draw_inputs(network, 5, 2);
    inputs["x"] = {1, 2, 3, 0, 0, 4, 4, 1, 2, 3};
    CHECK(run(network.predict, inputs, 0).at("probability") != run(network.predict, inputs, 1).at("probability"));
    CHECK(run(network.train, inputs, 0).at("loss") != run(network.train, inputs, 1).at("loss"));
    CHECK(run(network.validate, inputs, 0).at("loss") != run(network.validate, inputs, 1).at("loss"));
  }
}

struct Refusal {
  void (*spoil)(ProbActOptions& options);
  const char* message;
};

TEST_CASE("options out of range are refused") {
  const Refusal refusals[] = {
      {[](ProbActOptions& o) { o.sizes = {4}; }, "the sizes of a ProbAct network are 4"},
      {[](ProbActOptions& o) { o.activation = "rely"; }, "unknown activation 'rely'"},
      {[](ProbActOptions& o) { o.sigma = Sharing::Fixed, o.sigma_start = 0; },
       "the fixed sigma of a ProbAct network is 0, but must be positive"},
      {[](ProbActOptions& o) { o.sigma = Sharing::Fixed, o.sigma_start = -1; }, "is -1, but must be positive"},
      {[](ProbActOptions& o) { o.sigma_bound = -2; }, "the bound of sigma of a ProbAct network is -2"},
      {[](ProbActOptions& o) { o.sigma_bound = NAN; }, "the bound of sigma of a ProbAct network is nan"},
      {[](ProbActOptions& o) { o.sigma_slope = 0; }, "the slope beta of a bounded sigma is 0, but must be positive"},
      {[](ProbActOptions& o) { o.sigma = Sharing::Fixed, o.sigma_bound = 2; }, "a fixed sigma has no use for a bound"},
      {[](ProbActOptions& o) { o.noise = false, o.sigma_bound = 2; },
       "plain activations have no sigma that could be bounded"},
      {[](ProbActOptions& o) { o.architecture = Architecture::TextCnn; }, "the inputs of this one are no texts"},
      {[](ProbActOptions& o) { o = text_options(), o.sizes = {5, 3, 2}; }, "hidden layers are for dense networks"},
      {[](ProbActOptions& o) { o = text_options(), o.evaluation = Evaluation::Moments; },
       "moments in closed form are known for dense rectifiers only"},
      {[](ProbActOptions& o) { o.activation = "tanh", o.evaluation = Evaluation::Moments; },
       "moments in closed form are known for dense rectifiers only"},
      {[](ProbActOptions& o) { o.architecture = Architecture::Vgg16, o.sizes = {4, 2}; },
       "0x0 pixels of 0 channels are not the 4 inputs"},
      {[](ProbActOptions& o) { o.architecture = Architecture::Vgg16, o.image = {2, 2, 1}; },
       "hidden layers are for dense networks"},
  };
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.message);
    ProbActOptions options = dense_options();
    refusal.spoil(options);
    CHECK_THROWS_WITH_AS(probact_network(options), doctest::Contains(refusal.message), TypeError);
  }
}

}  // namespace
