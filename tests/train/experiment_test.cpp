#include "tools/commands/experiment.h"
#include "tools/commands/train_settings.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tools/commands/command.h"

namespace {

using namespace moxie;
using Json = nlohmann::ordered_json;

Json measured(const char* row, const char* column, double error) {
  return {{"row", row}, {"column", column}, {"test_error", error}, {"reason", "words are no metric"}};
}

}  // namespace

TEST_CASE("a table holds means, deviations and published figures") {
  const Experiment& table3 = find_experiment("table3");
  const auto table = table_of(table3, {measured("GPN variances", "letter", 0.06),
                                       measured("GPN variances", "letter", 0.08), measured("tanh", "adult", 0.15)});
  REQUIRE(table.size() == 2);
  CHECK(table[0].count == 2);
  CHECK(table[0].mean == doctest::Approx(0.07));
  CHECK(table[0].deviation == doctest::Approx(std::sqrt(2) / 100));
  REQUIRE(table[0].published);
  CHECK(table[0].published->value == 0.0709);
  CHECK_FALSE(table[1].published);
  const std::string text = markdown(table3, table);
  CHECK(text.find("| | letter | adult |\n| --- | --- | --- |\n| GPN variances | 0.07 ± 0.014 (0.0709 ± 0.0043) |  |\n"
                  "| tanh |  | 0.15 |\n") != std::string::npos);
}

TEST_CASE("a table says what was measured with other settings") {
  Json shorter = measured("tanh", "mnist", 0.03);
  shorter["settings"] = {"epochs=9", "batch=64"};
  const Experiment& table3 = find_experiment("table3");
  const auto table = table_of(table3, {measured("tanh", "letter", 0.1), shorter});
  REQUIRE(table.size() == 2);
  CHECK(table[0].settings.empty());
  CHECK(table[1].settings == "epochs=9, batch=64");
  CHECK(markdown(table3, table).find("With epochs=9, batch=64: tanh on mnist.\n") != std::string::npos);
}

TEST_CASE("a metric that does not exist is null in JSON, and left out of tables") {
  const Json unknown = Json::parse(R"({"row": "tanh", "column": "adult", "test_error": null})");
  CHECK(std::isnan(metric_of(unknown, "test_error")));
  CHECK(std::isnan(metric_of(unknown, "rmse")));
  CHECK(metric_of(measured("tanh", "adult", 0.15), "test_error") == 0.15);
  CHECK(table_of(find_experiment("table3"), {unknown}).empty());
}

TEST_CASE("published figures of a data set stand beside every method") {
  const Experiment& regression = find_experiment("regression");
  Json yacht = {{"row", "GPN variational"}, {"column", "yacht"}, {"rmse", 0.5}, {"log_likelihood", -1}};
  for (const TableEntry& entry : table_of(regression, {yacht})) {
    REQUIRE(entry.published);
    CHECK(entry.published->value == (entry.metric == "rmse" ? 0.67 : -1.25));
  }
}

TEST_CASE("an experiment's cells") {
  const Experiment& regression = find_experiment("regression");
  CHECK(cells_of(regression, {}).size() == 4 * (8 * 20 + 5));  // the protein set has five splits
  ExperimentOptions options;
  options.rows = {"GPN variances"};
  options.columns = {"protein-tertiary-structure", "synthetic-regression"};
  options.replicates = 7;
  CHECK(cells_of(regression, options).size() == 5 + 7);
  CHECK(cells_of(find_experiment("table3"), {}).size() == 8 * 4 * 5);
  CHECK(cells_of(find_experiment("table3"), {}).back().key() == "GPN_variational.mnist.4");
  options.rows = {"GPN"};
  CHECK_THROWS_WITH_AS(cells_of(regression, options),
                       "experiment regression has no row 'GPN'; it has: GPN variances, GPN variances predictive, "
                       "GPN variances recalibrated, GPN variational",
                       UsageError);
  CHECK_THROWS_WITH_AS(
      find_experiment("table5"),
      "there is no experiment 'table5'; known: table3, table4, regression, likelihoods, clt, seeds, probact, sp-gru",
      UsageError);
}

TEST_CASE("every row of a table is a method") {
  for (const char* name : {"table3", "table4", "regression", "likelihoods", "seeds"}) {
    for (const std::string& row : find_experiment(name).rows) {
      const TrainConfig config = with_method({}, row, {"epochs=3"});
      CHECK_NOTHROW(check(config));
      CHECK(config.epochs == 3);
      CHECK((config.model == "mlp") == row.starts_with("tanh"));
    }
  }
}

TEST_CASE("settings are options of moxie train") {
  const TrainConfig config = with_settings(
      {}, {"epochs=7", "rate=0.5", "layers=5,6", "train-sigma=false", "propagate=mean", "input-variance=0.5"});
  CHECK(config.epochs == 7);
  CHECK(config.rate == 0.5);
  CHECK(config.layers == std::vector<std::int64_t>{5, 6});
  CHECK_FALSE(config.train_sigma);
  CHECK(config.propagate == "mean");
  CHECK(config.input_variance == std::vector<double>{0.5});
  CHECK_THROWS_WITH_AS(
      with_settings({}, {"epoch=7"}),
      "--set epoch=7: give NAME=VALUE, an option of `moxie train` and its value; did you mean `epochs`?", UsageError);
  CHECK(with_settings(config, {"layers=5", "layers=7"}).layers == std::vector<std::int64_t>{5, 7});
  CHECK_THROWS_WITH_AS(with_settings({}, {"patience=1.5"}),
                       "--set patience=1.5: no value for --patience, which is a whole number", UsageError);
  CHECK(whole_settings({"layers=5", "7", "class-weight=a=2", "b=3", "rate=1", "epoch=2"}) ==
        std::vector<std::string>{"layers=5,7", "class-weight=a=2,b=3", "rate=1", "epoch=2"});
  CHECK(with_settings({}, {"class-weight=a=2,b=3"}).class_weight == std::vector<std::string>{"a=2", "b=3"});
  CHECK_THROWS_WITH_AS(with_settings({}, {"epochs"}), doctest::Contains("--set epochs: no value for --epochs"),
                       UsageError);
  CHECK_THROWS_WITH_AS(with_settings({}, {"epochs=-1"}), doctest::Contains("--set epochs=-1: no value for --epochs"),
                       UsageError);
}
