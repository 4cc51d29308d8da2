// Whole runs of networks with noise in their activations.
#include <doctest/doctest.h>

#include "compiler/support/error.h"
#include "learn/ensemble.h"
#include "tests/train/tiny.h"
#include "tools/commands/command.h"

namespace {

using namespace moxie;

TrainConfig config(const std::string& evaluation) {
  TrainConfig result = tiny::config("probact");
  result.sigma = "channel";
  result.evaluation = evaluation;
  result.samples = 5;
  return result;
}

TEST_CASE("noisy activations learn, and predict in every way") {
  const Dataset data = tiny::dataset();
  for (const char* evaluation : {"mean", "sample", "ensemble", "moments"}) {
    CAPTURE(evaluation);
    const tiny::Scratch scratch;
    TrainConfig chosen = config(evaluation);
    chosen.epochs = 20;
    const RunFolder folder = RunFolder::create(scratch / "run", chosen, "");
    TrainingRun run = tiny::run(chosen, data);
    run.train(tiny::saved_to(folder));
    CHECK(score_of(run.evaluate_best().test.scores, "error") < 0.25);
  }
}

TEST_CASE("an interrupted convolutional run goes on with its running averages") {
  TrainConfig chosen = config("mean");
  chosen.network = "vgg-small";
  chosen.epochs = 2;
  Dataset data = tiny::dataset();
  data.encoding.image = {1, 2, 1};
  const tiny::Scratch scratch;
  const RunFolder whole = RunFolder::create(scratch / "whole", chosen, "");
  tiny::run(chosen, data).train(tiny::saved_to(whole));
  const RunFolder parts = RunFolder::create(scratch / "parts", chosen, "");
  int steps = 3;
  tiny::run(chosen, data).train(tiny::saved_to(parts, [&] { return steps-- == 0; }));
  TrainingRun second = tiny::run(chosen, data);
  second.resume(parts.read_checkpoint());
  second.train(tiny::saved_to(parts));
  const Checkpoint a = whole.read_checkpoint(), b = parts.read_checkpoint();
  CHECK(a.tensors == b.tensors);
  CHECK(a.tensors.contains("layer1.running_mean"));
}

TEST_CASE("an ensemble gives means, and variances of what differs") {
  Ensemble ensemble;
  ensemble.add({{"probability", {2, {0.25, 0.75}}}, {"mean", {1, {1}}}, {"variance", {1, {0.5}}}});
  ensemble.add({{"probability", {2, {0.75, 0.25}}}, {"mean", {1, {3}}}, {"variance", {1, {1.5}}}});
  const auto outputs = ensemble.outputs();
  CHECK(outputs.at("probability").values == std::vector<double>{0.5, 0.5});
  CHECK(outputs.at("probability_variance").values == std::vector<double>{0.0625, 0.0625});
  CHECK(outputs.at("mean").values == std::vector<double>{2});
  CHECK(outputs.at("variance").values == std::vector<double>{2});
}

TEST_CASE("an ensemble is judged by its own loss, and plain activations need no ensemble") {
  const Dataset data = tiny::dataset();
  TrainConfig chosen = config("ensemble");
  chosen.sigma = "1";
  TrainingRun noisy = tiny::run(chosen, data);
  const Evaluation test = noisy.evaluate_best().test;
  CHECK(test.loss == score_of(test.scores, "nll"));
  CHECK(ensemble_size(chosen) == 5);
  // Early stopping follows the loss that is trained: with the weights of the classes, which the scores do not have.
  Dataset weighted = data;
  weighted.encoding.class_weights.assign(data.encoding.classes.size(), 3);
  Dataset uneven = data;
  uneven.encoding.class_weights.assign(data.encoding.classes.size(), 1);
  uneven.encoding.class_weights[0] = 5;
  const auto evaluated = [&](const Dataset& set) { return tiny::run(chosen, set).evaluate_best().test; };
  const Evaluation tripled = evaluated(weighted);
  CHECK(tripled.loss == doctest::Approx(3 * score_of(tripled.scores, "nll")));
  const Evaluation of_first = evaluated(uneven);
  CHECK(of_first.loss > 1.05 * score_of(of_first.scores, "nll"));
  CHECK(of_first.loss < 5 * score_of(of_first.scores, "nll"));
  chosen.sigma = "none";
  CHECK(ensemble_size(chosen) == 1);
}

void check_refused(void (*spoil)(TrainConfig& config), const char* message) {
  CAPTURE(message);
  TrainConfig chosen = config("mean");
  spoil(chosen);
  CHECK_THROWS_WITH_AS((check(chosen), make_network(chosen, tiny::encoding(Task::Classification))),
                       doctest::Contains(message), std::exception);
}

TEST_CASE("options of ProbAct that make no sense") {
  check_refused([](TrainConfig& c) { c.samples = 0; }, "--samples is 0, but must be positive");
  check_refused([](TrainConfig& c) { c.sigma = "0"; }, "the fixed sigma of a ProbAct network is 0");
  check_refused([](TrainConfig& c) { c.sigma = "-0.5"; }, "the fixed sigma of a ProbAct network is -0.5");
  check_refused([](TrainConfig& c) { c.sigma = "chanel"; },
                "--sigma 'chanel' is unknown; known: a number, none, single, channel, element");
  check_refused([](TrainConfig& c) { c.sigma = "1e"; }, "--sigma '1e' is not a number");
  check_refused([](TrainConfig& c) { c.sigma_bound = -1; }, "the bound of sigma of a ProbAct network is -1");
  check_refused([](TrainConfig& c) { c.network = "vgg"; },
                "--network 'vgg' is unknown; known: dense, text-cnn, vgg-small, vgg16");
  check_refused([](TrainConfig& c) { c.network = "vgg16"; }, "a convolutional network needs images");
  check_refused([](TrainConfig& c) { c.train_share = 0; }, "--train-share is 0, but must be above 0 and at most 1");
}

}  // namespace
