// Networks for texts as a user trains them.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/process.h"

using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

std::vector<std::string> train(const std::string& data, std::vector<std::string> more) {
  more.insert(more.begin(), {"train", "probact", "--network", "text-cnn", "--data", data, "--batch", "64", "--rate",
                             "0.003", "--threads", "1"});
  return more;
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  return last;
}

double test_error(const Workshop& shop, const std::string& run) {
  return nlohmann::json::parse(last_line(read_file(shop.path(run + "/metrics.jsonl")))).at("test_error").get<double>();
}

void check_refused(const Outcome& outcome, int code, const std::string& message) {
  CAPTURE(outcome.err);
  CHECK(outcome.code == code);
  CHECK(outcome.err.find(message) != std::string::npos);
}

}  // namespace

TEST_CASE("order is learnt, of which a bag of words knows nothing") {
  // Two thirds of the predictions of a bag of words are wrong: see the test of the generated reviews.
  const Workshop shop;
  for (const char* evaluation : {"mean", "sample", "ensemble"}) {
    CAPTURE(evaluation);
    const Outcome trained = shop.moxie(train("synthetic-text", {"--epochs", "6", "--sigma", "0.3", "--evaluation",
                                                                evaluation, "--samples", "5", "--out", evaluation}));
    CAPTURE(trained.err);
    CHECK(trained.code == 0);
    CHECK(test_error(shop, evaluation) < 0.05);
    const Outcome predicted = shop.moxie({"predict", evaluation, "--json"});
    CHECK(nlohmann::json::parse(predicted.out).at("error") == test_error(shop, evaluation));
  }
}

TEST_CASE("a text file is learnt, and new texts get classes; a run that was stopped is the same run") {
  const Workshop shop;
  std::string text;
  for (int k = 0; k < 40; ++k)
    text += k % 2 ? "first\tone before two " + std::to_string(k) + "\n" : "second\ttwo before one\n";
  shop.write("t.txt", text);
  CHECK(shop.shell("gzip -k t.txt").code == 0);
  shop.write("new.txt", "one before two\ntwo before one\n");
  const std::vector<std::string> more = {"--validation-share", "0.3", "--max-time", "100", "--out"};
  const auto run = [&](const char* data, const char* epochs, const char* folder) {
    std::vector<std::string> options = more;
    options.insert(options.end(), {folder, "--epochs", epochs});
    const Outcome outcome = shop.moxie(train(data, options));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
  };
  run("text:t.txt", "30", "whole");
  run("text:t.txt.gz", "3", "parts");
  CHECK(shop.moxie({"train", "--resume", "parts", "--epochs", "30"}).code == 0);
  const auto predictions = [&](const std::string& folder) {
    const Outcome outcome = shop.moxie({"predict", folder, "--data", "text:new.txt", "--out", folder + ".csv"});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    return read_file(shop.path(folder + ".csv"));
  };
  const std::string whole = predictions("whole");
  CHECK(whole.starts_with("row,label,probability,entropy,p_first,p_second\n1,first,"));
  CHECK(whole.find("\n2,second,") != std::string::npos);
  CHECK(predictions("parts") == whole);
}

TEST_CASE("texts and options that make no sense are refused before anything is written") {
  const Workshop shop;
  shop.write("empty.txt", "");
  shop.write("comma.txt", "good,fine\n");
  shop.write("one.txt", "good\tfine\ngood\tday\ngood\tone\n");
  shop.write("latin.txt", "good\tcaf\xe9\n");
  const auto run = [&](const std::string& data, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--out", "run"});
    return shop.moxie(train(data, more));
  };
  check_refused(run("text:absent.txt"), 1, "absent.txt: cannot be opened");
  check_refused(run("text:empty.txt"), 1, "empty.txt: holds no texts");
  check_refused(run("text:comma.txt"), 1, "comma.txt:1: 'good,fine' has no tab");
  check_refused(run("text:one.txt"), 1, "one.txt: the 3 texts have 1 different labels, such as 'good'");
  check_refused(run("text:latin.txt"), 1, "latin.txt:1: byte 9 of the line (0xe9) is not UTF-8");
  check_refused(run("synthetic-text", {"--vocabulary", "1"}), 1, "the vocabulary of texts is 1 words");
  check_refused(run("synthetic-text", {"--text-length", "0"}), 1, "the length of texts is 0 words");
  check_refused(run("synthetic-text", {"--evaluation", "moments"}), 1, "moments in closed form are known for dense");
  check_refused(run("synthetic-text", {"--evaluation", "ensemble", "--samples", "0"}), 2, "--samples is 0");
  check_refused(run("synthetic"), 1, "the network text-cnn needs the numbers of words");
  check_refused(shop.moxie({"train", "gpn", "--data", "synthetic-text", "--out", "run"}), 2,
                "texts are for `moxie train probact --network text-cnn`");
  CHECK_FALSE(std::filesystem::exists(shop.path("run")));
}
