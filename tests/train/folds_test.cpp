// Cross-validation, and settings over those of a file.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

using moxie::test::contains;
using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;
using Json = nlohmann::json;

namespace {

/// Two classes, the second a third of the rows.
std::string table() {
  std::string text = "a,b,kind\n";
  for (int k = 0; k < 60; ++k)
    text += fmt::format("{},{},{}\n", k % 7 + 4 * (k % 3 == 0), k * k % 11, k % 3 ? "m" : "n");
  return text;
}

Outcome train(const Workshop& shop, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train", "mlp", "--data", "csv:t.csv", "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return shop.moxie(arguments);
}

Json last_metrics(const Workshop& shop, int fold) {
  std::string text = read_file(shop.path(fmt::format("cv/fold-{}/metrics.jsonl", fold)));
  text.pop_back();
  return Json::parse(text.substr(text.rfind('\n') + 1));
}

const std::vector<std::string> kFolds = {"--folds", "3", "--layers", "3", "--epochs", "4", "--out", "cv"};

}  // namespace

TEST_CASE("cross-validation trains a run for each fold, and gives means and standard errors of their scores") {
  const Workshop shop;
  shop.write("t.csv", table());
  auto dry = kFolds;
  dry.emplace_back("--dry-run");
  const Outcome plan = train(shop, dry);
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  CHECK(contains(plan.out, "36 training, 4 validation, 20 test samples"));
  CHECK(contains(plan.out, "folds     as many runs would be made in cv: fold-1 to fold-3, and folds.json"));
  CHECK_FALSE(std::filesystem::exists(shop.path("cv")));

  const Outcome trained = train(shop, kFolds);
  REQUIRE_MESSAGE(trained.code == 0, trained.err);
  CHECK(contains(trained.out, "test score            mean  standard error\nloss "));
  const std::string summary = read_file(shop.path("cv/folds.json"));
  const Json json = Json::parse(summary);
  CHECK(json.at("folds") == 3);
  for (const char* name : {"error", "nll", "loss"}) {
    double sum = 0, squares = 0;
    for (int fold = 1; fold <= 3; ++fold) {
      const double value = last_metrics(shop, fold).at(fmt::format("test_{}", name));
      CHECK(json.at("scores").at(name).at("values").at(static_cast<std::size_t>(fold - 1)) == value);
      sum += value;
      squares += value * value;
    }
    const double mean = sum / 3, variance = (squares - 3 * mean * mean) / 2;
    CHECK(json.at("scores").at(name).at("mean") == doctest::Approx(mean));
    CHECK(json.at("scores").at(name).at("standard_error").get<double>() ==
          doctest::Approx(std::sqrt(std::max(variance, 0.0) / 3)).epsilon(1e-6));
  }

  // Each fold is a run as any other, with its own test rows.
  const Outcome predicted = shop.moxie({"predict", "cv/fold-2", "--data", "csv:t.csv", "--json"});
  REQUIRE_MESSAGE(predicted.code == 0, predicted.err);
  CHECK(Json::parse(predicted.out).at("nll").get<double>() ==
        doctest::Approx(last_metrics(shop, 2).at("test_nll").get<double>()));
  CHECK(shop.moxie({"compare", "cv/fold-1", "cv/fold-3"}).code == 0);
  for (const char* command : {"predict", "compare"})
    CHECK(contains(shop.moxie({command, "cv"}).err,
                   "cv is the folder of a cross-validation: name one of its runs, such as cv/fold-1"));

  // What is missing is trained by --resume, and comes out the same; folds that are there are left alone.
  const std::string first = read_file(shop.path("cv/fold-1/metrics.jsonl"));
  std::filesystem::remove_all(shop.path("cv/fold-3"));
  std::filesystem::remove(shop.path("cv/folds.json"));
  const Outcome resumed = shop.moxie({"train", "--resume", "cv", "--threads", "1"});
  REQUIRE_MESSAGE(resumed.code == 0, resumed.err);
  CHECK(read_file(shop.path("cv/fold-1/metrics.jsonl")) == first);
  CHECK(read_file(shop.path("cv/folds.json")) == summary);
  // A new limit is one for all folds.
  REQUIRE(shop.moxie({"train", "--resume", "cv", "--epochs", "5"}).code == 0);
  for (int fold = 1; fold <= 3; ++fold) CHECK(last_metrics(shop, fold).at("epoch") == 5);
}

TEST_CASE("folds that cannot be are refused before anything is written") {
  const Workshop shop;
  shop.write("t.csv", table());
  const auto refused = [&](const std::vector<std::string>& more, const char* message) {
    const Outcome outcome = train(shop, more);
    CHECK(outcome.code != 0);
    CHECK_MESSAGE(contains(outcome.err, message), outcome.err);
  };
  refused({"--folds", "1"}, "--folds is 1, but must be 2 or more, or 0 for one run");
  refused({"--folds", "3", "--fold", "4"}, "--fold is 4, but must be at most the number of --folds, 3");
  refused({"--folds", "61", "--out", "cv"}, "t.csv: 61 folds need as many rows, and there are 60; give fewer --folds");
  CHECK_FALSE(std::filesystem::exists(shop.path("cv")));
  const Outcome one = train(shop, {"--folds", "3", "--fold", "2", "--layers", "3", "--epochs", "1", "--out", "run"});
  CHECK_MESSAGE(one.code == 0, one.err);
  CHECK(std::filesystem::exists(shop.path("run/model.safetensors")));
}

TEST_CASE("--set goes before the settings of a file, and options of the command line before it") {
  const Workshop shop;
  shop.write("t.csv", table());
  const auto config = [&](const char* run) { return Json::parse(read_file(shop.path(run) / "config.json")); };
  const Outcome first =
      train(shop, {"--set", "layers=4,3,rate=0.5,class-weight=m=2,n=3,epochs=1", "--rate", "0.25", "--out", "a"});
  REQUIRE_MESSAGE(first.code == 0, first.err);
  CHECK(config("a").at("layers") == Json({4, 3}));
  CHECK(config("a").at("rate") == 0.25);
  CHECK(config("a").at("class-weight") == Json({"m=2", "n=3"}));
  const Outcome second = shop.moxie(
      {"train", "--config", "a/config.json", "--set", "layers=2", "--set", "batch=7", "--threads", "1", "--out", "b"});
  REQUIRE_MESSAGE(second.code == 0, second.err);
  CHECK(config("b").at("layers") == Json({2}));
  CHECK(config("b").at("batch") == 7);
  CHECK(config("b").at("rate") == 0.25);
  CHECK(config("b").at("moxie").at("command") == "moxie train mlp --config a/config.json --set layers=2 --set batch=7");

  const auto refused = [&](const char* setting, const char* message) {
    const Outcome outcome = shop.moxie({"train", "--config", "a/config.json", "--set", setting, "--out", "c"});
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, message), outcome.err);
  };
  refused("epoch=3",
          "--set epoch=3: give NAME=VALUE, an option of `moxie train` and its value; did you mean `epochs`?");
  refused("rate=fast", "--set rate=fast: no value for --rate, which is a number");
  refused("rate=-1", "--rate is -1, but must be positive");
  refused("propagate=mean", "--propagate is not for the model mlp");
  CHECK(contains(shop.moxie({"train", "--resume", "a", "--set", "epochs=2"}).err, "--set and --dry-run are for new"));
}
