// moxie experiment as a user runs it, with tiny versions of every experiment.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/process.h"
#include "tests/skip.h"

using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

nlohmann::json results(const Workshop& shop, const std::string& name) {
  return nlohmann::json::parse(read_file(shop.path("out/" + name + ".json")));
}

/// Small and quick networks.
std::vector<std::string> tiny(const std::string& experiment, const std::string& column) {
  return {"experiment",   experiment, "--out", "out",      "--columns", column,
          "--replicates", "2",        "--set", "layers=4", "--set",     "inducing-points=5",
          "--set",        "epochs=2", "--set", "batch=512"};
}

}  // namespace

TEST_CASE("table 3, interrupted by hand and resumed") {
  const Workshop shop;
  CHECK(shop.moxie(tiny("table3", "synthetic")).code == 0);
  const nlohmann::json first = results(shop, "table3");
  CHECK(first.at("measurements").size() == 16);
  CHECK(first.at("commit").is_string());
  CHECK(first.at("machine").at("threads") == 1);
  for (const auto& measured : first.at("measurements")) CHECK(measured.at("test_error").get<double>() <= 1);
  CHECK(read_file(shop.path("out/table3.md")).find("| GPN variational | ") != std::string::npos);

  std::filesystem::remove(shop.path("out/measurements/tanh.synthetic.1.json"));
  const Outcome again = shop.moxie(tiny("table3", "synthetic"));
  CHECK(again.code == 0);
  nlohmann::json second = results(shop, "table3");
  for (std::size_t k = 0; k < 16; ++k)
    CHECK(second["measurements"][k]["test_error"] == first["measurements"][k]["test_error"]);
  CHECK(std::filesystem::is_empty(shop.path("out/runs")));
}

TEST_CASE("regression, many seeds, and measurements without data") {
  const Workshop shop;
  CHECK(shop.moxie(tiny("regression", "synthetic-regression")).code == 0);
  const nlohmann::json sets = results(shop, "regression").at("table");
  for (const auto& entry : sets) CHECK(entry.at("count") == 2);
  const Workshop seeds;
  CHECK(seeds.moxie(tiny("seeds", "synthetic,synthetic-regression")).code == 0);
  const nlohmann::json runs = results(seeds, "seeds").at("measurements");
  for (const auto& measured : runs) CHECK(measured.at("failed") == 0);
  const Workshop limit;
  CHECK(limit.moxie({"experiment", "clt", "--out", "out", "--rows", "1,20", "--replicates", "2"}).code == 0);
  const nlohmann::json table = results(limit, "clt").at("table");
  const Outcome again =
      limit.moxie({"experiment", "clt", "--out", "out", "--rows", "1,20", "--replicates", "2", "--json"});
  CHECK(nlohmann::json::parse(again.out) == results(limit, "clt"));
  CHECK(table.at(0).at("metric") == "ks_distance");
  CHECK(table.at(1).at("mean").get<double>() < table.at(0).at("mean").get<double>());
  const Workshop iteration;
  CHECK(iteration.moxie({"experiment", "table4", "--out", "out", "--rows", "GPN variances"}).code == 0);
  CHECK(results(iteration, "table4").at("measurements").at(0).at("milliseconds").get<double>() > 0);
}

TEST_CASE("validation rows choose the settings of the likelihoods that are compared") {
  const Workshop shop;
  CHECK(shop.moxie({"experiment", "likelihoods", "--out", "out", "--columns", "synthetic-regression", "--replicates",
                    "1", "--set", "layers=4", "--set", "inducing-points=5", "--set", "epochs=2"})
            .code == 0);
  const nlohmann::json measurements = results(shop, "likelihoods").at("measurements");
  REQUIRE(measurements.size() == 4);
  for (const auto& measured : measurements) {
    const nlohmann::json& candidates = measured.at("candidates");
    REQUIRE(candidates.size() == 2);
    const bool first = candidates[0].at("validation_nll") <= candidates[1].at("validation_nll");
    CHECK(measured.at("chosen") == (first ? "batch=256" : "batch=32"));
    CHECK(measured.at("nll") == candidates[first ? 0 : 1].at("nll"));
    CHECK(measured.at("default_nll") == candidates[0].at("nll"));
  }
}

TEST_CASE("parts of an experiment make one table") {
  const Workshop shop;
  const std::vector<std::string> part = {"experiment", "clt", "--out", "out", "--replicates", "1", "--rows"};
  const auto measure = [&](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    CHECK(shop.moxie(arguments).code == 0);
  };
  measure(part, {"5", "--set", "epochs=2"});
  measure(part, {"1"});
  const nlohmann::json both = results(shop, "clt").at("measurements");
  REQUIRE(both.size() == 2);
  CHECK(both.at(0).at("row") == "1");  // in the order of the experiment, not of the commands
  CHECK(both.at(0).at("settings").empty());
  CHECK(both.at(1).at("settings") == nlohmann::json({"epochs=2"}));
}

TEST_CASE("a folder holds one experiment") {
  const Workshop shop;
  CHECK(shop.moxie({"experiment", "clt", "--out", "out", "--rows", "1", "--replicates", "1"}).code == 0);
  const Outcome other = shop.moxie(tiny("table3", "synthetic"));
  CHECK(other.code == 1);
  CHECK(other.err.find("choose another --out") != std::string::npos);
  const Outcome same_entry = shop.moxie({"experiment", "clt", "--out", "out", "--rows", "1", "--set", "epochs=2"});
  CHECK(same_entry.code == 1);
  CHECK(
      same_entry.err.find("'1' on random initialisation was measured there for experiment \"clt\" with settings []") !=
      std::string::npos);
  const Outcome unknown = shop.moxie({"experiment", "table5"});
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("there is no experiment 'table5'; known: table3") != std::string::npos);
}

TEST_CASE("ProbAct with less data and noisy inputs") {
  const Workshop shop;
  const Outcome probact =
      shop.moxie({"experiment", "probact", "--out", "out", "--columns", "synthetic 50 %", "--rows",
                  "ReLU,ProbAct channel", "--replicates", "1", "--set", "epochs=2", "--set", "layers=6"});
  CHECK(probact.code == 0);
  const nlohmann::json measured = results(shop, "probact").at("measurements");
  REQUIRE(measured.size() == 2);
  for (const auto& cell : measured) {
    CHECK(cell.at("error_noise_1").get<double>() <= 1);
    CHECK(cell.at("test_error").get<double>() <= 1);
  }
  const Outcome refused = shop.moxie({"experiment", "probact", "--out", "other", "--columns", "synthetic x"});
  CHECK(refused.code == 2);
  CHECK(refused.err.find("column 'synthetic x': name a data set, or a part") != std::string::npos);
}

TEST_CASE("recurrent networks with digits that move otherwise" * doctest::test_suite("shared")) {
  const std::string data = std::string(MOXIE_SHARED_DIR) + "/data";
  if (!std::filesystem::is_directory(data + "/mnist")) return moxie::test::skip("there is no " + data + "/mnist");
  const Workshop frames;
  const Outcome moving =
      frames.moxie({"experiment", "sp-gru",     "--out",    "out",      "--data-dir", data,       "--replicates",
                    "1",          "--set",      "epochs=1", "--set",    "hidden=4",   "--set",    "sequences=20",
                    "--set",      "pooling=16", "--set",    "frames=4", "--set",      "samples=3"});
  CHECK(moving.code == 0);
  const nlohmann::json cells = results(frames, "sp-gru").at("measurements");
  REQUIRE(cells.size() == 3);
  const Outcome negative = frames.moxie({"train", "sp-gru", "--cell", "gru-gamma", "--frame-noise", "0.1", "--data",
                                         "moving-mnist", "--data-dir", data, "--sequences", "20", "--out", "refused"});
  CHECK(negative.code == 1);
  CHECK(negative.err.find("but the network's x is declared >= 0") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(frames.path("refused")));
  for (const auto& cell : cells) CHECK(cell.at("variance_angle_30").get<double>() > 0);
}
