// moxie train and moxie predict as a user runs them.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "runtime/safetensors.h"
#include "tests/cli/process.h"

using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

/// A model that trains in an instant.
const std::vector<std::string> kTrain = {"train", "mlp", "--layers", "6", "--epochs", "3", "--threads", "1"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json last_metrics(const Workshop& shop, const std::string& run) {
  std::istringstream lines(read_file(shop.path(run + "/metrics.jsonl")));
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  return nlohmann::json::parse(last);
}

void check_refused(const Outcome& outcome, int code, const std::string& message) {
  CHECK(outcome.code == code);
  CHECK(outcome.err.find(message) != std::string::npos);
  CAPTURE(outcome.err);
}

}  // namespace

TEST_CASE("a run leaves its folder, and predict reads it") {
  const Workshop shop;
  const Outcome trained = shop.moxie(with(kTrain, {"--out", "run"}));
  CHECK(trained.code == 0);
  CHECK(trained.err.empty());
  for (const char* line :
       {"\ndata      synthetic: 2,880 training", "\nformulas  ", "\ncompiled  ", "\ntest      error "})
    CHECK(("\n" + trained.out).find(line) != std::string::npos);
  const nlohmann::json metrics = last_metrics(shop, "run");
  for (const char* name : {"train_error", "validation_error", "test_error", "test_ece", "elapsed_s"})
    CHECK(metrics.at(name).get<double>() >= 0);
  CHECK(nlohmann::json::parse(read_file(shop.path("run/config.json"))).at("epochs") == 3);

  const Outcome predicted = shop.moxie({"predict", "run", "--json", "--out", "p.csv"});
  CHECK(predicted.code == 0);
  CHECK(nlohmann::json::parse(predicted.out).at("error") == metrics.at("test_error"));
  CHECK(read_file(shop.path("p.csv")).starts_with("row,class,probability,entropy,p_"));
}

TEST_CASE("the precision of a run is in its settings, its model file and the log, and stays when it goes on") {
  const Workshop shop;
  const Outcome trained = shop.moxie(with(kTrain, {"--precision", "fast", "--out", "run"}), "MOXIE_LOG=runtime ");
  CHECK(trained.code == 0);
  CHECK(trained.err.find(": fast precision, ") != std::string::npos);
  CHECK(nlohmann::json::parse(read_file(shop.path("run/config.json"))).at("precision") == "fast");
  CHECK(read_file(shop.path("run/model.safetensors")).find(R"(\"precision\": \"fast\")") != std::string::npos);
  check_refused(shop.moxie({"train", "--resume", "run", "--precision", "strict"}), 2,
                "--precision cannot change when a run is resumed");
}

TEST_CASE("a table is learnt and predicted") {
  const Workshop shop;
  std::string table = "a,b,y\n";
  for (int k = 0; k < 60; ++k)
    table += std::to_string(k % 7) + "," + std::to_string(k % 5) + "," + std::to_string(k % 7 * 2.5) + "\n";
  shop.write("t.csv", table);
  shop.write("new.csv", "b,a\n1,2\n3,4\n");
  CHECK(shop.moxie(with(kTrain, {"--data", "csv:t.csv", "--out", "run"})).code == 0);
  const nlohmann::json metrics = last_metrics(shop, "run");
  for (const char* name : {"rmse", "nll", "test_coverage_95"}) CHECK(metrics.at(name).is_number());
  const Outcome predicted = shop.moxie({"predict", "run", "--data", "csv:new.csv", "--out", "p.csv"});
  CHECK(predicted.code == 0);
  CHECK(read_file(shop.path("p.csv")).starts_with("row,y,y_sd,y_low95,y_high95\n1,"));
  check_refused(shop.moxie({"predict", "run", "--data", "csv:new.csv"}), 2, "has no targets to compare with");
  check_refused(shop.moxie({"predict", "run", "--data", "csv:t.csv", "--out", "p.txt"}), 2,
                "predictions are written as .csv or .npz");
  check_refused(shop.moxie({"predict", "run"}), 2, "add --data 'csv:t.csv'");
  CHECK(shop.moxie({"predict", "run", "--data", "csv:t.csv"}).code == 0);
}

TEST_CASE("predict scores the rows that were not trained on, and says which rows it scored") {
  const Workshop shop;
  std::string table = "a,b,y\n", tests = "a,b,y\n";
  for (int k = 0; k < 60; ++k) {
    const std::string row =
        std::to_string(k % 7) + "," + std::to_string(k % 5) + "," + std::to_string(k % 7 * 2.5) + "\n";
    (k < 50 ? table : tests) += row;
  }
  shop.write("t.csv", table);
  shop.write("test.csv", tests);
  const std::vector<std::string> predict = {"predict", "run", "--json", "--data"};
  REQUIRE(shop.moxie(with(kTrain, {"--data", "csv:t.csv", "--out", "run"})).code == 0);
  nlohmann::json metrics = last_metrics(shop, "run");
  for (const auto& [rows, count, metric] :
       {std::tuple{"test", 10, "test_rmse"}, std::tuple{"validation", 4, "validation_rmse"},
        std::tuple{"train", 36, "train_rmse"}}) {
    const auto scores = nlohmann::json::parse(shop.moxie(with(predict, {"csv:t.csv", "--rows", rows})).out);
    CHECK(scores.at("samples") == count);
    CHECK(scores.at("rmse") == metrics.at(metric));
  }
  // The same file by another name.
  const auto scores = nlohmann::json::parse(shop.moxie(with(predict, {"csv:./t.csv"})).out);
  CHECK(scores.at("rows") == "10 test rows of csv:./t.csv; --rows all is for all of them");
  CHECK(scores.at("rmse") == metrics.at("test_rmse"));
  const Outcome all = shop.moxie({"predict", "run", "--data", "csv:t.csv", "--rows", "all", "--out", "p.csv"});
  CHECK(all.out.starts_with("rows         all 50 rows of csv:t.csv, the training rows among them\n"));
  const std::string predictions = read_file(shop.path("p.csv"));
  CHECK(std::ranges::count(predictions, '\n') == 51);
  CHECK(shop.moxie({"predict", "run", "--data", "csv:test.csv"})
            .out.starts_with("rows         all 10 rows of csv:test.csv\n"));
  check_refused(shop.moxie({"predict", "run", "--data", "csv:test.csv", "--rows", "test"}), 2,
                "its rows are not divided");

  const Outcome tried = shop.moxie(with(kTrain, {"--data", "csv:t.csv", "--test-file", "test.csv", "--out", "other"}));
  REQUIRE(tried.code == 0);
  CHECK(tried.out.find("moxie predict other --data csv:test.csv)") != std::string::npos);
  check_refused(shop.moxie({"predict", "other", "--data", "csv:t.csv"}), 2,
                "those are in test.csv; add --data 'csv:test.csv'");
  metrics = last_metrics(shop, "other");
  const auto tested = nlohmann::json::parse(shop.moxie({"predict", "other", "--json", "--data", "csv:test.csv"}).out);
  CHECK(tested.at("rmse") == metrics.at("test_rmse"));
  CHECK(shop.moxie({"predict", "other", "--data", "csv:t.csv", "--rows", "all"}).code == 0);
}

TEST_CASE("arrays are learnt and predicted") {
  const Workshop shop;
  std::vector<double> x, y;
  for (int row = 0; row < 60; ++row) {
    for (const int column : {0, 1}) x.push_back(row % (5 + 2 * column));
    y.push_back(row % 5 < 2);
  }
  moxie::TensorFile arrays;
  arrays.tensors = {{"x", moxie::make_host_tensor(moxie::DType::f64, {60, 2}, x)},
                    {"y", moxie::make_host_tensor(moxie::DType::f64, {60}, y)}};
  moxie::write_safetensors(shop.path("data.safetensors"), arrays);
  const std::vector<std::string> data = {"--data", "safetensors:data.safetensors"};
  CHECK(shop.moxie(with(with(kTrain, data), {"--task", "classify", "--out", "run"})).code == 0);
  CHECK(last_metrics(shop, "run").at("test_error").is_number());
  CHECK(shop.moxie(with({"predict", "run", "--out", "p.npz"}, data)).code == 0);
  check_refused(shop.moxie({"predict", "run", "--data", "npz:p.npz"}), 1, "p.npz: has no array 'x' of features");
}

TEST_CASE("a network with a posterior is trained, reported and diagnosed") {
  const Workshop shop;
  const Outcome trained = shop.moxie({"train",
                                      "gpn",
                                      "--layers",
                                      "4",
                                      "--inducing-points",
                                      "5",
                                      "--epochs",
                                      "3",
                                      "--inference",
                                      "vb",
                                      "--propagate",
                                      "covariance",
                                      "--covariance",
                                      "series:6",
                                      "--kl-warmup",
                                      "2",
                                      "--task",
                                      "classify",
                                      "--sharing",
                                      "group",
                                      "--init",
                                      "relu",
                                      "--input-variance",
                                      "0.01",
                                      "--input-connected",
                                      "--out",
                                      "run",
                                      "--threads",
                                      "1"});
  CHECK(trained.code == 0);
  CHECK(trained.out.find("\njitter    0.01 is added to the prior covariance of the targets\n") != std::string::npos);
  const nlohmann::json metrics = last_metrics(shop, "run");
  CHECK(metrics.at("kl").get<double>() > 0);
  CHECK(metrics.at("jitter").size() == 2);
  CHECK(metrics.at("covariance") == "series:6");
  CHECK(metrics.at("covariance_error").get<double>() >= 0);
  CHECK(read_file(shop.path("run/report.html")).ends_with("</body></html>\n"));

  const nlohmann::json scores = nlohmann::json::parse(shop.moxie({"predict", "run", "--json"}).out);
  CHECK(scores.at("sharpness") == metrics.at("test_sharpness"));
  CHECK(scores.at("reliability").is_array());
  const Outcome jacobian = shop.moxie({"predict", "run", "--diagnose", "jacobian", "--json"});
  CHECK(jacobian.code == 0);
  CHECK(nlohmann::json::parse(jacobian.out).at("jacobian").size() == 4);
  CHECK(shop.moxie({"predict", "run", "--diagnose", "jacobian"})
            .out.starts_with("singular values of the Jacobian of "
                             "logit_mean over 800 samples"));
}

TEST_CASE("SIGTERM saves, and the run goes on") {
  const Workshop shop;
  // The first line of metrics says that training is under way.
  const Outcome stopped =
      shop.shell(MOXIE_PROGRAM
                 " train mlp --layers 6 --epochs 100000000 --patience 100000000 --max-time 60 --out run & "
                 "until [ -s run/metrics.jsonl ] || ! kill -0 $!; do sleep 0.05; done; kill -TERM $!; wait $!");
  CHECK(stopped.code == 0);
  CHECK(stopped.out.find("go on with: moxie train --resume run") != std::string::npos);
  const Outcome resumed = shop.moxie({"train", "--resume", "run", "--epochs", "1"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out.find("all 1 epochs are done") != std::string::npos);
  CHECK(last_metrics(shop, "run").contains("test_error"));
}

TEST_CASE("wrong options are refused before anything is written") {
  const Workshop shop;
  check_refused(shop.moxie({"train"}), 2, "which model?");
  check_refused(shop.moxie({"train", "gpn", "--dropout", "fast"}), 2, "--dropout is not for the model gpn");
  check_refused(shop.moxie({"train", "gpn", "--propagate", "x"}), 2, "known: covariance, mean, sample, variance");
  check_refused(shop.moxie({"train", "gpn", "--inference", "x"}), 2, "--inference 'x' is unknown; known: ml, vb");
  check_refused(shop.moxie({"train", "gpn", "--posterior", "x"}), 2,
                "--posterior 'x' is unknown; known: diagonal, full");
  check_refused(shop.moxie({"train", "gpn", "--covariance", "x"}), 2, "--covariance 'x' is unknown; known: ");
  check_refused(shop.moxie({"train", "gpn", "--covariance", "series:x"}), 2,
                "--covariance series:x: give series:TERMS, with 1 to 100 terms");
  check_refused(shop.moxie({"train", "gpn", "--covariance", "exact:3"}), 2, "--covariance exact:3: give series:TERMS");
  check_refused(shop.moxie({"train", "gpn", "--likelihood", "x"}), 2, "known: beta-nll, expected, predictive");
  check_refused(shop.moxie({"train", "gpn", "--likelihood", "predictive", "--mean-warmup", "3"}), 2,
                "--mean-warmup is for gpn with --likelihood beta-nll");
  check_refused(shop.moxie({"train", "gpn", "--likelihood", "beta-nll", "--mean-warmup", "-1"}), 2,
                "--mean-warmup is -1, but must be a number of epochs");
  check_refused(shop.moxie({"train", "gpn", "--init", "x"}), 2, "known: identity, random, relu, tanh");
  check_refused(shop.moxie({"train", "gpn", "--kl-warmup", "-1"}), 2,
                "--kl-warmup is -1, but must be a number of epochs");
  check_refused(shop.moxie({"train", "gpn", "--task", "regress"}), 1,
                "synthetic: its targets are classes, so the task can only be to classify");
  check_refused(shop.moxie({"train", "gpn", "--inference", "vb", "--jitter", "0"}), 1,
                "the jitter of a GPN network is 0, but must be positive");
  check_refused(shop.moxie({"train", "gpn", "--sharing", "group", "--groups", "7"}), 1,
                "the 30 units of layer 1 do not fall into 7 groups of the same size");
  check_refused(shop.moxie({"train", "gpn", "--input-variance", "1,2"}), 1,
                "2 input variances were given, but the GPN network has 8 inputs");
  check_refused(shop.moxie({"train", "gpn", "--batch", "0"}), 2, "--batch is 0, but must be positive");
  check_refused(shop.moxie({"train", "gpn", "--data", "nothing"}), 1,
                "there is no data set 'nothing'; known: synthetic");
  check_refused(shop.moxie({"train", "gpn", "--optimiser", "x"}), 1, "known: adam momentum rmsprop sgd");
  check_refused(shop.moxie({"train", "gpn", "--layers", "0"}), 1, "the sizes of a GPN network are 8x0x4");
  check_refused(shop.moxie({"train", "--resume", "runs"}), 1, "it is not the folder of a training run");
  check_refused(shop.moxie({"predict", "runs"}), 1, "runs/model.safetensors");
  CHECK_FALSE(std::filesystem::exists(shop.path("runs")));
}

TEST_CASE("noise, variances and samples out of range are refused before anything is written") {
  const Workshop shop;
  const auto probact = [&](const std::vector<std::string>& more) {
    return shop.moxie(with({"train", "probact"}, more));
  };
  check_refused(probact({"--sigma", "-1"}), 1, "the fixed sigma of a ProbAct network is -1, but must be positive");
  check_refused(probact({"--sigma", "0"}), 1, "the fixed sigma of a ProbAct network is 0, but must be positive");
  check_refused(probact({"--sigma", "nan"}), 2, "--sigma 'nan' is unknown; known: a number, none, single");
  check_refused(probact({"--sigma", "channel", "--sigma-bound", "-2"}), 1,
                "the bound of sigma of a ProbAct network is -2, but must be positive, or 0 for none");
  check_refused(probact({"--sigma", "none", "--sigma-bound", "2"}), 1, "plain activations have no sigma");
  check_refused(probact({"--sigma-slope", "0"}), 1, "the slope beta of a bounded sigma is 0, but must be positive");
  check_refused(probact({"--evaluation", "ensemble", "--samples", "0"}), 2, "--samples is 0, but must be positive");
  check_refused(probact({"--samples", "-1"}), 2, "--samples: -1 is not a number without sign");
  check_refused(probact({"--network", "vgg-small"}), 1,
                "a convolutional network needs images, but 0x0 pixels of 0 channels are not the 8 inputs of this one");
  check_refused(shop.moxie({"train", "gpn", "--input-variance", "-1"}), 1,
                "an input variance of a GPN network is -1, but must be positive");
  check_refused(shop.moxie({"train", "gpn", "--batch", "-5"}), 2, "--batch: -5 is not a number without sign");
  check_refused(shop.moxie({"train", "sp-gru"}), 2, "sp-gru is for sequences of frames: --data moving-mnist");
  check_refused(shop.moxie({"train", "sp-gru", "--data", "moving-mnist", "--frames", "19"}), 1,
                "moving-mnist: the number of frames is 19, but must be even, one half to read and one to write");
  check_refused(shop.moxie({"train", "sp-gru", "--data", "moving-mnist", "--frame-noise", "-1"}), 1,
                "moving-mnist: the noise is -1, but must be 0 or positive");
  CHECK_FALSE(std::filesystem::exists(shop.path("runs")));
}

TEST_CASE("folders without a name are numbered, and misspelt options are understood") {
  const Workshop shop;
  for (const char* folder : {"runs/mlp-synthetic-1", "runs/mlp-synthetic-1-2", "runs/mlp-synthetic-1-3"}) {
    const Outcome trained = shop.moxie({"train", "mlp", "--layers", "2", "--epochs", "1", "--threads", "1"});
    CHECK(trained.out.find(std::string("run       ") + folder + " ") != std::string::npos);
    CHECK(std::filesystem::exists(shop.path(folder) / "model.safetensors"));
  }
  check_refused(shop.moxie({"train", "mlp", "--epoch", "1"}), 2, "--epoch: did you mean `--epochs`?");
  check_refused(shop.moxie({"train", "mlp", "--lerning-rate=1"}), 2, "--lerning-rate=1");
  check_refused(shop.moxie({"trains", "mlp"}), 2, "there is no command 'trains'; did you mean `train`?");
}

TEST_CASE("a run is never overwritten, and stays the same run when it goes on") {
  const Workshop shop;
  CHECK(shop.moxie(with(kTrain, {"--out", "run"})).code == 0);
  check_refused(shop.moxie(with(kTrain, {"--out", "run"})), 1, "run exists already, and no run is ever overwritten");
  check_refused(shop.moxie({"train", "--resume", "run", "--rate", "1"}), 2,
                "--rate cannot change when a run is resumed");
  check_refused(shop.moxie({"train", "--resume", "run", "--out", "b"}), 2, "--out and --resume do not go together");
}
