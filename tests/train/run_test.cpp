// Whole runs on tiny data.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <limits>

#include "compiler/support/error.h"
#include "data/file.h"
#include "data/loaders.h"
#include "learn/chosen_rows.h"
#include "tests/train/tiny.h"

namespace {

using namespace moxie;

/// Stops a run before step `count` + 1.
std::function<bool()> after(int count) {
  return [count]() mutable { return count-- == 0; };
}

/// Everything that must not depend on whether a run was interrupted.
void check_same(const RunFolder& a, const RunFolder& b) {
  const Checkpoint left = a.read_checkpoint();
  Checkpoint right = b.read_checkpoint();
  right.state.elapsed = left.state.elapsed;
  CHECK(left.state == right.state);
  CHECK(left.tensors == right.tensors);
  CHECK(left.best == right.best);
  CHECK(load_model(a.model_file()).parameters == load_model(b.model_file()).parameters);
}

void check_resume(const TrainConfig& config, int steps, Task task = Task::Classification) {
  CAPTURE(steps);
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset(task);
  const RunFolder whole = RunFolder::create(scratch / "whole", config, "");
  tiny::run(config, data).train(tiny::saved_to(whole));

  const RunFolder parts = RunFolder::create(scratch / "parts", config, "");
  tiny::run(config, data).train(tiny::saved_to(parts, after(steps)));
  TrainingRun second = tiny::run(config, data);
  second.resume(parts.read_checkpoint());
  second.train(tiny::saved_to(parts));
  check_same(whole, parts);
}

}  // namespace

TEST_CASE("a resumed run gives the same bits") {
  TrainConfig config = tiny::config("mlp");
  for (const int steps : {0, 3, 4, 5, 17}) check_resume(config, steps);  // an epoch has 4
  config.dropout = "fast";
  check_resume(config, 6);
  config.patience = 1;  // the rate falls before and after the interruption
  check_resume(config, 14);
  TrainConfig gpn = tiny::config("gpn");
  gpn.epochs = 2;
  check_resume(gpn, 5);
}

TEST_CASE("a run goes on with the rows that it began with, and its test rows are known while those are the same") {
  const tiny::Scratch scratch;
  TrainConfig config = tiny::config("mlp");
  std::string rows = "a,b,y\n";
  for (int row = 0; row < 40; ++row) rows += fmt::format("{},{},{}\n", row % 7, row % 5, row % 3);
  const std::filesystem::path file = scratch / "t.csv";
  config.data = "csv:" + file.string();
  config.targets = {"y"};
  config.task = "regress";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  const auto load = [&] { return load_dataset(config.data, load_options(config)); };
  write(rows);
  const Dataset before = load();
  const RunFolder folder = RunFolder::create(scratch / "run", config, "");
  tiny::run(config, before).train(tiny::saved_to(folder, after(3)));
  const SavedModel model = load_model(folder.model_file());
  CHECK(choose_rows({config.data, "", "test"}, model, "run").samples.rows() == before.test.rows());

  write(rows + "3,3,3\n");
  const Dataset more = load();
  TrainingRun run = tiny::run(config, more);
  CHECK_THROWS_WITH_AS(run.resume(folder.read_checkpoint()), doctest::Contains("are not those that the run began with"),
                       DataError);
  CHECK_THROWS_WITH_AS(choose_rows({config.data, "", "test"}, model, "run"),
                       doctest::Contains("t.csv has changed since run was trained on it"), UsageError);
  CHECK(choose_rows({config.data, "", "all"}, model, "run").samples.rows() == 41);
}

TEST_CASE("training that begins with the means resumes, and its model has the whole likelihood") {
  TrainConfig config = tiny::config("gpn");
  config.likelihood = "beta-nll";
  config.mean_warmup = 4;
  check_resume(config, 6, Task::Regression);
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset(Task::Regression);
  config.epochs = 1;
  const RunFolder folder = RunFolder::create(scratch / "run", config, "");
  TrainingRun run = tiny::run(config, data);
  run.train(tiny::saved_to(folder));
  CHECK(to_doubles(run.trainer().value("nll_weight"))[0] == 0.25);  // after 4 of 16 steps
  CHECK(to_doubles(load_model(folder.model_file()).parameters.at("nll_weight"))[0] == 1);
}

TEST_CASE("networks learn a tiny set by heart") {
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset();
  for (const char* model : {"gpn", "mlp"}) {
    CAPTURE(model);
    TrainConfig config = tiny::config(model);
    config.layers = {5};
    config.rate = 0.05;
    config.epochs = 60;
    TrainingRun run = tiny::run(config, data);
    run.train(tiny::saved_to(RunFolder::create(scratch / model, config, "")));
    CHECK(score_of(run.evaluate_best().train.scores, "error") == 0);
  }
}

TEST_CASE("regression knows its errors in the units of the data") {
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset(Task::Regression);
  for (const char* model : {"gpn", "mlp"}) {
    CAPTURE(model);
    TrainConfig config = tiny::config(model);
    config.layers = {6};
    config.rate = 0.05;
    config.epochs = 60;
    TrainingRun run = tiny::run(config, data);
    run.train(tiny::saved_to(RunFolder::create(scratch / model, config, "")));
    const FinalReport report = run.evaluate_best();
    // The targets' standard deviation is about 2, and so is the error of a constant.
    CHECK(score_of(report.test.scores, "rmse") < 0.7);
    CHECK(score_of(report.test.scores, "coverage_95") > 0.6);
  }
}

TEST_CASE("recalibration makes the mean square of standardised validation errors one") {
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset(Task::Regression);
  TrainConfig config = tiny::config("gpn");
  config.recalibrate = true;
  TrainingRun run = tiny::run(config, data);
  run.train(tiny::saved_to(RunFolder::create(scratch / "run", config, "")));
  const FinalReport report = run.evaluate_best();
  CHECK(report.test.variance_scale == report.validation.variance_scale);
  const Prediction prediction = run.predict(data.validation);
  double squares = 0;
  for (std::size_t i = 0; i < prediction.mean.size(); ++i) {
    const double error = prediction.mean[i] - (10 + 2 * data.validation.y.values[i]);
    squares += error * error / prediction.variance[i] / static_cast<double>(prediction.mean.size());
  }
  CHECK(squares == doctest::Approx(1).epsilon(1e-4));
}

TEST_CASE("limits end a run, with the reason") {
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset();
  TrainConfig config = tiny::config("mlp");
  config.epochs = 2;
  TrainingRun two = tiny::run(config, data);
  two.train(tiny::saved_to(RunFolder::create(scratch / "two", config, "")));
  CHECK(two.state().finished == "all 2 epochs are done");
  config.epochs = 1000;
  config.max_time = 0.05;
  TrainingRun timed = tiny::run(config, data);
  timed.train(tiny::saved_to(RunFolder::create(scratch / "timed", config, "")));
  CHECK(timed.state().finished == "0.05 s are over");
  TrainingRun stopped = tiny::run(config, data);
  stopped.train(tiny::saved_to(RunFolder::create(scratch / "stopped", config, ""), after(2)));
  CHECK(stopped.state().finished.empty());
}

TEST_CASE("a loss that is not finite stops the run, and names the sample") {
  const tiny::Scratch scratch;
  Dataset data = tiny::dataset();
  data.train.x(33, 1) = std::numeric_limits<float>::quiet_NaN();
  const TrainConfig config = tiny::config("mlp");
  const RunFolder folder = RunFolder::create(scratch / "run", config, "");
  TrainingRun run = tiny::run(config, data);
  CHECK_THROWS_WITH_AS(run.train(tiny::saved_to(folder)), doctest::Contains("the loss of training sample 34 is nan"),
                       DeviceError);
  for (const auto& [name, tensor] : folder.read_checkpoint().tensors) {
    for (const double value : to_doubles(tensor)) CHECK(std::isfinite(value));
  }
}

TEST_CASE("steps with a loss that is not finite can be skipped") {
  const tiny::Scratch scratch;
  Dataset data = tiny::dataset();
  data.train.x(33, 1) = std::numeric_limits<float>::infinity();
  TrainConfig config = tiny::config("mlp");
  config.activation = "identity";
  config.on_nan = "skip";
  TrainingRun run = tiny::run(config, data);
  run.train(tiny::saved_to(RunFolder::create(scratch / "run", config, "")));
  CHECK(run.state().skipped == config.epochs);
}

TEST_CASE("a rate that is far too high stops the run") {
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset();
  TrainConfig config = tiny::config("mlp");
  config.activation = "identity";
  config.optimiser = "sgd";
  config.rate = 1e30;
  TrainingRun run = tiny::run(config, data);
  CHECK_THROWS_WITH_AS(run.train(tiny::saved_to(RunFolder::create(scratch / "run", config, ""))),
                       doctest::Contains("The parameters from before this step are saved"), DeviceError);
}

TEST_CASE("a run folder is never overwritten") {
  const tiny::Scratch scratch;
  const TrainConfig config = tiny::config("mlp");
  const RunFolder folder = RunFolder::create(scratch / "run", config, "moxie train mlp");
  const std::string before = read_whole_file(scratch / "run" / "config.json");
  CHECK_THROWS_WITH_AS(RunFolder::create(scratch / "run", config, ""),
                       doctest::Contains("exists already, and no run is ever overwritten"), DataError);
  CHECK(read_whole_file(scratch / "run" / "config.json") == before);
  CHECK_THROWS_WITH_AS(RunFolder::open(scratch / "run"), doctest::Contains("it is not the folder of a training run"),
                       DataError);
}

TEST_CASE("other tensors are no checkpoint") {
  const tiny::Scratch scratch;
  const RunFolder folder = RunFolder::create(scratch / "run", tiny::config("mlp"), "");
  write_safetensors(scratch / "run" / "checkpoint.safetensors", {});
  CHECK_THROWS_WITH_AS(folder.read_checkpoint(), doctest::Contains("is not a checkpoint"), DataError);
}

TEST_CASE("metrics of steps after a checkpoint are dropped") {
  const tiny::Scratch scratch;
  const RunFolder folder = RunFolder::create(scratch / "run", tiny::config("mlp"), "");
  for (const char* line : {R"({"step":4})", R"({"step":8})", R"({"step":8,"final":true})", R"({"step":)"})
    folder.append_metrics(line);
  folder.rewind_metrics(8);
  CHECK(read_whole_file(scratch / "run" / "metrics.jsonl") == "{\"step\":4}\n{\"step\":8}\n");
  folder.rewind_metrics(7);
  CHECK(read_whole_file(scratch / "run" / "metrics.jsonl") == "{\"step\":4}\n");
}

TEST_CASE("configurations and models survive their files") {
  const tiny::Scratch scratch;
  const TrainConfig config = tiny::config("gpn");
  CHECK(to_json(config_from_json(to_json(config), "config.json")) == to_json(config));
  for (const char* text : {"{\"model\": 3}", "{\"rate\": 0.1}", "{\"model\": \"gpn\", \"rate\": \"fast\"}"}) {
    CHECK_THROWS_WITH_AS(config_from_json(text, "config.json"),
                         doctest::Contains("config.json: is not the configuration of a run"), DataError);
  }
  CHECK(config_from_json("{\"model\": \"gpn\"}", "config.json").rate == TrainConfig{}.rate);
  CHECK_THROWS_WITH_AS(config_from_json("{\"model\": \"gpn\", \"epochz\": 3}", "config.json"),
                       doctest::Contains("config.json: there is no option 'epochz'"), DataError);
  write_safetensors(scratch / "other.safetensors", {});
  CHECK_THROWS_WITH_AS(load_model(scratch / "other.safetensors"), doctest::Contains("is not the model of a run"),
                       DataError);
}

TEST_CASE("extents that a damaged file claims are refused before anything is made of them") {
  const tiny::Scratch scratch;
  const Dataset data = tiny::dataset();
  const TrainConfig config = tiny::config("gpn");
  const Network network = make_network(config, data.encoding);
  const auto refuses = [&](const std::function<void(SavedModel&)>& damage, const std::string& message) {
    SavedModel model{config, data.encoding, initial_values(network.parameters, 1)};
    damage(model);
    save_model(scratch / "model.safetensors", model);
    CHECK_THROWS_WITH_AS(load_model(scratch / "model.safetensors"), doctest::Contains(message.c_str()), DataError);
  };
  refuses([](SavedModel& m) { m.config.layers = {6, 1'000'000'000}; }, "--layers is 1000000000, but must be at most");
  refuses([](SavedModel& m) { m.config.layers = {6, 4'000'000}; }, "but its network expects [");
  refuses([](SavedModel& m) { m.config.layers = std::vector<std::int64_t>(100'000, 1); }, "--layers is 100000");
  refuses([](SavedModel& m) { m.config.inducing_points = 7; }, "but its network expects [");
  refuses([](SavedModel& m) { m.config.inducing_points = 1'000'000'000; }, "--inducing-points is 1000000000");
  refuses([](SavedModel& m) { m.config.samples = 1'000'000'000; }, "--samples is 1000000000, but must be at most");
  refuses([](SavedModel& m) { m.encoding.image = {1, 2, 1'000'000'000'000}; }, "do not fit 2 features");
  refuses([](SavedModel& m) { m.encoding.image = {1ULL << 32, 1ULL << 32, 1}; }, "do not fit 2 features");
  refuses([](SavedModel& m) { m.parameters.erase(m.parameters.begin()); }, "there is no parameter ");
  save_model(scratch / "model.safetensors", {config, data.encoding, initial_values(network.parameters, 1)});
  CHECK(load_model(scratch / "model.safetensors").parameters.size() == network.parameters.size());
}
