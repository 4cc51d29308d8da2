// Tables as people have them: missing values, keys, unknown categories, unequal classes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

Outcome train(const Workshop& shop, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train",     "mlp", "--layers", "4",   "--epochs", "3",
                                        "--threads", "1",   "--out",    "run", "--data",   "csv:t.csv"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return shop.moxie(arguments);
}

Outcome predict(const Workshop& shop, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"predict", "run"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return shop.moxie(arguments);
}

/// Rows of a key, a town, a number that may be NA, and a price that may be missing.
std::string prices() {
  std::string table = "id,town,area,price\n";
  for (int k = 0; k < 40; ++k)
    table += fmt::format("{},{},{},{}\n", k == 30 ? "007" : fmt::format("{}", 100 + k), k % 3 ? "Ulm" : "Bonn",
                         k % 10 == 7 ? "NA" : fmt::format("{}", k), k % 8 == 5 ? "-" : fmt::format("{}", 3 * k));
  return table;
}

void check_refused(const Outcome& outcome, const std::string& message) {
  CAPTURE(outcome.err);
  CHECK(outcome.code != 0);
  CHECK(outcome.err.find(message) != std::string::npos);
}

const std::vector<std::string> kRead = {"--ignore", "id", "--missing", "NA,-", "--missing-target", "skip"};

}  // namespace

TEST_CASE("missing values are written as the user says, and rows without a target are left out and counted") {
  const Workshop shop;
  shop.write("t.csv", prices());
  check_refused(train(shop, {}),
                "t.csv:9: column 3 'area': 'NA' is not a number; if it stands for a missing value, say "
                "--missing 'NA'");
  check_refused(train(shop, {"--ignore", "id", "--missing", "NA,-"}),
                "t.csv:7: column 4 'price': the target is missing; --missing-target skip");
  const Outcome trained = train(shop, kRead);
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.out.find("samples (5 rows without a target are left out); 4 features") != std::string::npos);

  // All rows have predictions, with their numbers, keys and targets; scored are those with a target.
  const Outcome all = predict(
      shop, {"--data", "csv:t.csv", "--rows", "all", "--keep", "id", "--out", "p.csv", "--levels", "0.5,0.999"});
  CAPTURE(all.err);
  REQUIRE(all.code == 0);
  CHECK(all.out.find("all 40 rows of csv:t.csv, the training rows among them; 35 of them have targets\n") !=
        std::string::npos);
  const std::string written = read_file(shop.path("p.csv"));
  CHECK(
      written.starts_with("row,id,price,price_sd,price_low50,price_high50,price_low99.9,price_high99.9,price_true\n"));
  CHECK(written.find("\n31,007,") != std::string::npos);
  const std::string sixth = written.substr(written.find("\n6,105,"));
  CHECK(sixth.substr(1, sixth.find('\n', 1) - 1).ends_with(","));
  // Numbers of test rows are those of the file, rows without a target among them.
  REQUIRE(predict(shop, {"--data", "csv:t.csv", "--keep", "id", "--out", "test.csv"}).code == 0);
  const std::string tests = read_file(shop.path("test.csv"));
  CHECK(std::ranges::count(tests, '\n') > 1);
  for (std::size_t at = tests.find('\n'); at + 1 < tests.size(); at = tests.find('\n', at + 1)) {
    const std::size_t comma = tests.find(',', at), end = tests.find(',', comma + 1);
    const int row = std::stoi(tests.substr(at + 1)), id = std::stoi(tests.substr(comma + 1, end));
    CHECK((row == 31 ? id == 7 : id == row + 99));
  }
}

TEST_CASE("what training did not see is refused, taken for unknown or left out") {
  const Workshop shop;
  std::string table = "town,area,price\n";
  for (int k = 0; k < 30; ++k) table += fmt::format("{},{},{}\n", k % 3 ? "Ulm" : "Bonn", k, 3 * k + k % 3);
  shop.write("t.csv", table);
  REQUIRE(train(shop, {}).code == 0);
  shop.write("new.csv", "note,town,area\n1,Rom,5\nx,Ulm,\n,Ulm,5\n");
  const auto try_with = [&](const std::string& choice) {
    return predict(shop, {"--data", "csv:new.csv", "--out", "p.csv", "--unexpected", choice});
  };
  check_refused(try_with("error"),
                "new.csv:2: column 2 'town': 'Rom' is not one of the known values 'Bonn' 'Ulm'; "
                "--unexpected unknown or skip goes on");
  CHECK(try_with("unknown").code == 0);
  CHECK(std::ranges::count(read_file(shop.path("p.csv")), '\n') == 4);
  CHECK(try_with("skip").code == 0);
  const std::string skipped = read_file(shop.path("p.csv"));
  CHECK(std::ranges::count(skipped, '\n') == 2);
  CHECK(skipped.find("\n3,") != std::string::npos);
  // With targets there are scores, which say how many rows are left out.
  shop.write("known.csv", "town,area,price\nRom,5,15\nUlm,5,16\n");
  CHECK(predict(shop, {"--data", "csv:known.csv", "--unexpected", "skip"})
            .out.starts_with("rows         1 rows of csv:known.csv; 1 more are left out"));
  check_refused(predict(shop, {"--data", "csv:new.csv", "--levels", "95", "--out", "p.csv"}),
                "95 is not a probability between 0 and 1");
  check_refused(predict(shop, {"--data", "csv:known.csv", "--keep", "name"}), "has no column 'name'");
}

TEST_CASE("settings come from a file, and a dry run leaves nothing") {
  const Workshop shop;
  REQUIRE(shop.moxie({"train", "mlp", "--layers", "3", "--epochs", "1", "--threads", "1", "--out", "first"}).code == 0);
  const Outcome again = shop.moxie({"train", "--config", "first/config.json", "--seed", "2", "--out", "second"});
  CAPTURE(again.err);
  REQUIRE(again.code == 0);
  const auto config = nlohmann::json::parse(read_file(shop.path("second/config.json")));
  CHECK(config.at("layers").at(0) == 3);
  CHECK(config.at("epochs") == 1);
  CHECK(config.at("seed") == 2);
  shop.write("bad.json", "{\"model\": \"mlp\", \"epoch\": 1}");
  check_refused(shop.moxie({"train", "--config", "bad.json"}), "bad.json: there is no option 'epoch'");
  const Outcome dry = shop.moxie({"train", "mlp", "--dry-run", "--out", "third"});
  CHECK(dry.code == 0);
  CHECK(dry.out.find("\ncompiled  ") != std::string::npos);
  CHECK(dry.out.find("third would be made") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(shop.path("third")));
}

TEST_CASE("runs are compared by settings that differ and by scores") {
  const Workshop shop;
  for (const char* layers : {"2", "3"})
    REQUIRE(shop.moxie({"train", "mlp", "--layers", layers, "--epochs", "1", "--threads", "1", "--out", layers}).code ==
            0);
  const Outcome compared = shop.moxie({"compare", "2", "3"});
  CAPTURE(compared.err);
  REQUIRE(compared.code == 0);
  CHECK(compared.out.find("\nlayers ") != std::string::npos);
  CHECK(compared.out.find("\ntest_error ") != std::string::npos);
  CHECK(compared.out.find("\npatience ") == std::string::npos);
  const auto json = nlohmann::json::parse(shop.moxie({"compare", "2", "3", "--json"}).out);
  CHECK(json.at(1).at("settings").at("layers").at(0) == 3);
  check_refused(shop.moxie({"compare", "2", "4"}), "4 holds no checkpoint.safetensors");
}

TEST_CASE("a target of zeros and ones asks what it is, and weights move predictions to the rarer class") {
  const Workshop shop;
  std::string table = "a,b,y\n";
  for (int k = 0; k < 200; ++k) table += fmt::format("{},{},{}\n", k % 7, k * k % 11, k % 10 == 0 ? 1 : 0);
  shop.write("t.csv", table);
  check_refused(train(shop, {}),
                "t.csv: the target 'y' holds nothing but 0 and 1; say what these are: --task classify");
  const auto mean_of_ones = [&](const std::vector<std::string>& more) {
    std::filesystem::remove_all(shop.path("run"));
    std::vector<std::string> arguments = {"--task", "classify", "--rate", "0.1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE(train(shop, arguments).code == 0);
    REQUIRE(predict(shop, {"--data", "csv:t.csv", "--rows", "all", "--out", "p.csv"}).code == 0);
    const std::string text = read_file(shop.path("p.csv"));
    CHECK(text.starts_with("row,y,probability,entropy,p_0,p_1,y_true\n"));
    double sum = 0;
    for (std::size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) {
      std::size_t begin = at + 1;
      for (int comma = 0; comma < 5; ++comma) begin = text.find(',', begin) + 1;
      sum += std::stod(text.substr(begin));
    }
    return sum / 200;
  };
  const double plain = mean_of_ones({}), balanced = mean_of_ones({"--class-weight", "balanced"});
  CHECK(plain < 0.25);
  CHECK(balanced > plain + 0.1);
}

TEST_CASE("what does not exist is a dash, and no NaN has a sign") {
  const Workshop shop;
  std::string constant = "a,y\n", line = "a,y\n";
  for (int k = 0; k < 30; ++k) {
    constant += fmt::format("{},5\n", k);
    line += fmt::format("{0},{0}\n", k);
  }
  shop.write("t.csv", constant);
  const Outcome trained = train(shop, {});
  REQUIRE_MESSAGE(trained.code == 0, trained.err);
  CAPTURE(trained.out);
  CHECK(trained.out.find("constant  rmse 0, nll -: the mean of the training samples, 5,") != std::string::npos);
  CHECK(trained.out.find("nan") == std::string::npos);

  // The loss of the later epochs is infinite after the first step, and their steps are left out.
  shop.write("t.csv", line);
  const Outcome lossless =
      shop.moxie({"train", "mlp", "--layers", "4", "--epochs", "3", "--threads", "1", "--optimiser", "sgd", "--rate",
                  "1e30", "--on-nan", "skip", "--out", "lossless", "--data", "csv:t.csv"});
  CAPTURE(lossless.out);
  REQUIRE_MESSAGE(lossless.code == 0, lossless.err);
  CHECK(lossless.out.find("loss -  validation ") != std::string::npos);
  CHECK(lossless.out.find("nan") == std::string::npos);
}
