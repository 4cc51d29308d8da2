// moxie export: what a user's C program gets of a trained model.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <sstream>

#include "tests/cli/process.h"
#include "tests/skip.h"

namespace moxie::test {
namespace {

#if defined(__aarch64__)
constexpr const char* kHere = "cpu:aarch64";
#else
constexpr const char* kHere = "cpu:x86-64-v3,cpu:x86-64";
#endif

/// A table of `rows` points of the plane; `target` gives the last column.
std::string plane(int rows, const std::function<std::string(double, double)>& target) {
  std::string table = "a,b,y\n";
  for (int k = 0; k < rows; ++k) {
    const int a = k % 10, b = k / 10;
    table += fmt::format("{},{},{}\n", a, b, target(a, b));
  }
  return table;
}

std::vector<double> numbers_in(const std::string& line) {
  std::vector<double> numbers;
  std::istringstream cells(line);
  std::string cell;
  std::getline(cells, cell, ',');  // the number of the row
  while (std::getline(cells, cell, ',')) numbers.push_back(std::atof(cell.c_str()));
  return numbers;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// What the exported run prints for these columns of data.csv: the words of each row, as numbers where they are such.
std::vector<std::vector<double>> printed_by_export(const Workshop& shop, const std::string& columns) {
  const Outcome exported = shop.moxie({"export", "run", "-o", "model", "--target", kHere});
  CHECK(exported.err == "");
  const Outcome predicted = shop.shell(
      "cd model && cc -std=c99 -Wall -Wextra -Werror -pedantic predict.c -L. -lmodel -o predict && "
      "tail -n +2 ../data.csv | cut -d, -f" +
      columns + " | tr , ' ' | ./predict");
  CHECK(predicted.err == "");
  CHECK(predicted.code == 0);
  std::vector<std::vector<double>> rows;
  for (const std::string& line : lines_of(predicted.out)) {
    rows.emplace_back();
    std::istringstream words(line);
    for (std::string word; words >> word;) rows.back().push_back(std::atof(word.c_str()));
  }
  return rows;
}

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-3 * (1 + std::abs(b)); }

}  // namespace

TEST_CASE("an exported regression predicts the mean and the variance that `moxie predict` does") {
  const Workshop shop;
  shop.write("data.csv", plane(60, [](double a, double b) { return fmt::format("{}", 3 * a - b * b); }));
  CHECK(shop.moxie({"train", "gpn", "--data", "csv:data.csv", "--target", "y", "--layers", "3", "--epochs", "3",
                    "--threads", "1", "--out", "run"})
            .code == 0);
  const std::string rows = read_file(shop.path("data.csv"));
  const Outcome kept = shop.moxie({"predict", "run", "--data", "csv:data.csv", "--rows", "all", "--out", "data.csv"});
  CHECK(kept.code == 2);
  CHECK(kept.err.find("--out data.csv: the command reads this file") != std::string::npos);
  CHECK(read_file(shop.path("data.csv")) == rows);
  CHECK(shop.moxie({"predict", "run", "--data", "csv:data.csv", "--rows", "all", "--out", "p.csv"}).code == 0);
  const auto ours = printed_by_export(shop, "1-2");
  const std::vector<std::string> theirs = lines_of(read_file(shop.path("p.csv")));
  REQUIRE(ours.size() == 60);
  for (std::size_t row = 0; row < 60; ++row) {
    const std::vector<double> wanted = numbers_in(theirs.at(row + 1));  // mean, sd
    CHECK(is_near(ours[row].at(1), wanted.at(0)));
    CHECK(is_near(ours[row].at(2), wanted.at(1) * wanted.at(1)));
  }
}

TEST_CASE("an exported classifier predicts the probabilities that `moxie predict` does") {
  const std::vector<std::vector<std::string>> models = {{"gpn"}, {"gpn", "--inference", "vb"}, {"probact"}, {"mlp"}};
  for (const std::vector<std::string>& model : models) {
    CAPTURE(model.front());
    const Workshop shop;
    shop.write("data.csv", plane(100, [](double a, double b) { return a + b < 10 ? "low" : "high"; }));
    std::vector<std::string> train = {"train"};
    train.insert(train.end(), model.begin(), model.end());
    for (const char* word : {"--data", "csv:data.csv", "--target", "y", "--layers", "3", "--epochs", "2", "--threads",
                             "1", "--out", "run"})
      train.emplace_back(word);
    REQUIRE(shop.moxie(train).code == 0);
    CHECK(shop.moxie({"predict", "run", "--data", "csv:data.csv", "--rows", "all", "--out", "p.csv"}).code == 0);
    const auto ours = printed_by_export(shop, "1-2");
    const std::vector<std::string> theirs = lines_of(read_file(shop.path("p.csv")));
    REQUIRE(ours.size() == 100);
    for (std::size_t row = 0; row < 100; ++row) {
      const std::vector<double> wanted = numbers_in(theirs.at(row + 1));  // class, its probability, entropy, all
      CHECK(is_near(ours[row].at(1), wanted.at(3)));
      CHECK(is_near(ours[row].at(3), wanted.at(4)));
    }
  }
}

TEST_CASE("all predictions of a model of one's own are exported") {
  const std::string head =
      "dim S dynamic, I, K = 2\nindex s:S, i:I, k:K\ninput x[S,I]: f64, target[S]\n"
      "parameter w[I] init normal(0.1), log_sd: f64 init zeros\n";
  for (const bool has_mean : {true, false}) {
    CAPTURE(has_mean);
    const Workshop shop;
    shop.write("data.csv", plane(40, [](double a, double b) { return fmt::format("{}", 3 * a - b * b); }));
    shop.write("m.mox",
               head + fmt::format("predict {}[s] = sum[i](w[i]*x[s,i])\npredict powers[s,k] = {}[s]^(k + 2)\n"
                                  "loss e = sum[s]((target[s] - {}[s])^2*exp(-log_sd) + log_sd)/S\n",
                                  has_mean ? "mean" : "line", has_mean ? "mean" : "line", has_mean ? "mean" : "line"));
    const Outcome trained = shop.moxie({"train", "m.mox", "--data", "csv:data.csv", "--target", "y", "--epochs", "3",
                                        "--threads", "1", "--out", "run"});
    CAPTURE(trained.err);
    REQUIRE(trained.code == 0);
    CHECK(shop.moxie({"predict", "run", "--data", "csv:data.csv", "--rows", "all", "--out", "p.csv"}).code == 0);
    const auto ours = printed_by_export(shop, "1-2");
    const std::vector<std::string> theirs = lines_of(read_file(shop.path("p.csv")));
    REQUIRE(ours.size() == 40);
    for (std::size_t row = 0; row < 40; ++row) {
      // y MEAN VARIANCE powers_1 POWER powers_2 POWER beside mean, sd, bounds, powers; or line LINE powers_1 ...
      const std::vector<double> wanted = numbers_in(theirs.at(row + 1));
      const std::size_t first = has_mean ? 4 : 1, powers = has_mean ? 4 : 1;
      CHECK(is_near(ours[row].at(1), wanted.at(0)));
      CHECK(is_near(ours[row].at(first + (has_mean ? 0 : 2)), wanted.at(powers)));
      CHECK(is_near(ours[row].at(first + (has_mean ? 2 : 4)), wanted.at(powers + 1)));
    }
  }
}

TEST_CASE("an exported network for texts reads the numbers of words that vocabulary.txt has by line") {
  const Workshop shop;
  std::string text;
  for (int k = 0; k < 20; ++k) text += k % 2 ? "a\tred blue green\n" : "b\tgreen blue\n";
  shop.write("data.txt", text);
  REQUIRE(shop.moxie({"train", "probact", "--network", "text-cnn", "--data", "text:data.txt", "--epochs", "2",
                      "--threads", "1", "--out", "run"})
              .code == 0);
  shop.write("new.txt", "blue red\nred new green\n");
  CHECK(shop.moxie({"predict", "run", "--data", "text:new.txt", "--out", "p.csv"}).code == 0);
  shop.write("data.csv", "word 1,word 2,word 3\n2,4,0\n4,1,3\n");
  const auto ours = printed_by_export(shop, "1-3");
  CHECK(read_file(shop.path("model/vocabulary.txt")) == "<unknown>\nblue\ngreen\nred\n");
  const std::vector<std::string> theirs = lines_of(read_file(shop.path("p.csv")));
  REQUIRE(ours.size() == 2);
  for (std::size_t row = 0; row < 2; ++row) {
    const std::vector<double> wanted = numbers_in(theirs.at(row + 1));  // class, its probability, entropy, all
    CHECK(is_near(ours[row].at(1), wanted.at(3)));
    CHECK(is_near(ours[row].at(3), wanted.at(4)));
  }
}

TEST_CASE("an exported recurrent network predicts frames" * doctest::test_suite("shared")) {
  const std::string data = std::string(MOXIE_SHARED_DIR) + "/data";
  if (!std::filesystem::is_directory(data + "/mnist")) return skip("there is no " + data + "/mnist");
  const Workshop shop;
  REQUIRE(shop.moxie({"train",     "sp-gru", "--data",    "moving-mnist", "--data-dir", data, "--sequences", "20",
                      "--frames",  "2",      "--pooling", "32",           "--hidden",   "4",  "--epochs",    "1",
                      "--threads", "1",      "--out",     "run"})
              .code == 0);
  std::string table;
  for (const char* frame : {"1", "2"}) {
    for (const char* pixel : {"0,0", "0,1", "1,0", "1,1"})
      table += fmt::format("{}\"frame {} pixel {}\"", table.empty() ? "" : ",", frame, pixel);
  }
  shop.write("data.csv", table + "\n0.1,0.9,0.4,0,0,0,0,0\n0,0.2,0.3,1,0,0,0,0\n");
  CHECK(shop.moxie({"predict", "run", "--data", "csv:data.csv", "--out", "p.csv"}).code == 0);
  const auto ours = printed_by_export(shop, "1-4");
  const std::vector<std::string> theirs = lines_of(read_file(shop.path("p.csv")));
  REQUIRE(ours.size() == 2);
  for (std::size_t row = 0; row < 2; ++row) {
    const std::vector<double> wanted = numbers_in(theirs.at(row + 1));  // mean, sd, and two bounds, of each pixel
    for (std::size_t pixel = 0; pixel < 4; ++pixel) {
      const std::size_t words = 6 * pixel;  // "frame 2 pixel 0,0 MEAN VARIANCE"
      CHECK(is_near(ours[row].at(words + 4), wanted.at(4 * pixel)));
      CHECK(is_near(ours[row].at(words + 5), std::pow(wanted.at(4 * pixel + 1), 2)));
    }
  }
}

}  // namespace moxie::test
