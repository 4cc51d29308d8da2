// Models of the user's own: files with parameters, predictions and a loss, trained by `moxie train FILE.mox`.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/cli/process.h"

using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

const std::string kModel = R"(dim S dynamic, I, H = 32
index s:S, i:I, h:H
input x[S,I], target[S]
parameter W[H,I] init glorot, b[H] init zeros, v[H] init normal(0.1), log_sd init constant(-1)
let z[s,h] = softplus(sum[i](W[h,i]*x[s,i]) + b[h])
predict mean[s] = sum[h](v[h]*z[s,h])
predict variance[s] = exp(2*log_sd)
loss nll = sum[s]((target[s] - mean[s])^2/(2*variance[s]) + log_sd)/S
)";

/// Uniform and normal numbers that are the same with every library.
class Draws {
 public:
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
    return radius * std::cos(6.283185307179586 * uniform(0, 1));
  }

 private:
  std::mt19937_64 random_{7};
};

/// A smooth function of two numbers, with some noise.
std::string smooth_table(int rows = 500) {
  Draws draw;
  std::string table = "a,b,price\n";
  for (int k = 0; k < rows; ++k) {
    const double a = draw.uniform(-2, 2), b = draw.uniform(-2, 2);
    table += fmt::format("{:.5f},{:.5f},{:.5f}\n", a, b, std::sin(2 * a) + b * b / 2 + 0.1 * draw.normal());
  }
  return table;
}

/// Two lines that part: the mean lies where no target is.
std::string two_lines() {
  Draws draw;
  std::string table = "a,y\n";
  for (int k = 0; k < 300; ++k) {
    const double a = draw.uniform(-1, 1), side = k % 2 == 0 ? 1 : -1;
    table += fmt::format("{:.5f},{:.5f}\n", a, side * (2 + a) + 0.1 * draw.normal());
  }
  return table;
}

/// Three rings around each other.
std::string rings() {
  Draws draw;
  std::string table = "a,b,ring\n";
  for (int k = 0; k < 300; ++k) {
    const double a = draw.uniform(-2, 2), b = draw.uniform(-2, 2), radius = std::hypot(a, b);
    table += fmt::format("{:.5f},{:.5f},{}\n", a, b, radius < 1 ? "inner" : radius < 1.7 ? "middle" : "outer");
  }
  return table;
}

std::vector<nlohmann::json> metrics_of(const Workshop& shop, const std::string& run) {
  std::vector<nlohmann::json> all;
  std::istringstream lines(read_file(shop.path(run + "/metrics.jsonl")));
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  REQUIRE_FALSE(all.empty());
  return all;
}

Outcome train(const Workshop& shop, const std::string& model, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train", model, "--threads", "1", "--out", "run"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return shop.moxie(arguments);
}

void copy_example(const Workshop& shop, const std::string& name) {
  shop.write(name, read_file(std::string(MOXIE_EXAMPLES_DIR "/models/") + name));
}

/// What `moxie train` says of a model that is wrong.
void check_refused(const std::string& model, const std::vector<std::string>& fragments,
                   const std::vector<std::string>& more = {}) {
  const Workshop shop;
  shop.write("t.csv", smooth_table(20));
  shop.write("m.mox", model);
  std::vector<std::string> arguments = {"--data", "csv:t.csv"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = train(shop, "m.mox", arguments);
  CAPTURE(model);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 1);
  for (const std::string& fragment : fragments) {
    CAPTURE(fragment);
    CHECK(outcome.err.find(fragment) != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(shop.path("run")));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a file is trained, predicts, resumes and exports like any model") {
  const Workshop shop;
  shop.write("t.csv", smooth_table());
  shop.write("my_model.mox", kModel);
  const Outcome trained =
      train(shop, "my_model.mox",
            {"--data", "csv:t.csv", "--target", "price", "--epochs", "400", "--batch", "32", "--rate", "0.03"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  const auto metrics = metrics_of(shop, "run");
  // A constant prediction has the deviation of the targets, 1.0, as its error, and a loss of 0.5.
  CHECK(metrics.back().at("rmse").get<double>() < 0.3);
  CHECK(metrics.back().at("validation_loss").get<double>() < -0.8);
  CHECK(read_file(shop.path("run/report.html")).find("<pre># my_model\ndim S dynamic, I, H = 32\n") !=
        std::string::npos);
  CHECK(read_file(shop.path("run/model.mox")).find("parameter W[H,I] init glorot, ") != std::string::npos);

  std::filesystem::remove(shop.path("my_model.mox"));  // the run has all that is needed
  shop.write("new.csv", "b,a\n1,0.5\n-1,0\n");
  const Outcome predicted = shop.moxie({"predict", "run", "--data", "csv:new.csv", "--out", "p.csv"});
  CAPTURE(predicted.err);
  CHECK(predicted.code == 0);
  CHECK(read_file(shop.path("p.csv")).starts_with("row,price,price_sd,price_low95,price_high95\n"));
  const auto scores = nlohmann::json::parse(shop.moxie({"predict", "run", "--data", "csv:t.csv", "--json"}).out);
  CHECK(scores.at("rmse") == metrics.back().at("test_rmse"));
  const Outcome resumed = shop.moxie({"train", "--resume", "run", "--epochs", "402"});
  CAPTURE(resumed.err);
  CHECK(resumed.code == 0);
  CHECK(metrics_of(shop, "run").back().at("epoch") == 402);
  const Outcome exported = shop.moxie({"export", "run", "-o", "c", "--target", "cpu:x86-64"});
  CAPTURE(exported.err);
  CHECK(exported.code == 0);
}

TEST_CASE("a model that draws its latent values is resumed bit for bit, and tells how its mean depends on features") {
  const Workshop shop;
  shop.write("t.csv", smooth_table());
  shop.write("m.mox", R"(dim S dynamic, I, Z = 2
index s:S, i:I, z:Z
input x[S,I], target[S]
parameter M[Z,I] init glorot, log_sd[Z] init constant(-1), w[Z] init normal(0.3)
let latent[s,z] = sum[i](M[z,i]*x[s,i]) + exp(log_sd[z])*randn(0)
predict mean[s] = sum[z](w[z]*latent[s,z])
loss error = sum[s]((target[s] - mean[s])^2)/S
)");
  const auto options = [](const char* epochs, const char* out) {
    return std::vector<std::string>{"train",    "m.mox", "--data", "csv:t.csv", "--target",  "price",
                                    "--epochs", epochs,  "--out",  out,         "--threads", "1"};
  };
  REQUIRE(shop.moxie(options("12", "whole")).code == 0);
  REQUIRE(shop.moxie(options("5", "parts")).code == 0);
  REQUIRE(shop.moxie({"train", "--resume", "parts", "--epochs", "12"}).code == 0);
  const auto whole = metrics_of(shop, "whole"), parts = metrics_of(shop, "parts");
  CHECK(parts.back().at("validation_loss") == whole.back().at("validation_loss"));
  CHECK(parts.back().at("test_loss") == whole.back().at("test_loss"));
  const Outcome jacobian = shop.moxie({"predict", "whole", "--data", "csv:t.csv", "--diagnose", "jacobian", "--json"});
  CAPTURE(jacobian.err);
  REQUIRE(jacobian.code == 0);
  CHECK(nlohmann::json::parse(jacobian.out).at("jacobian").size() == 1);
}

TEST_CASE("dims come from the text, the data or the command line") {
  const Workshop shop;
  shop.write("t.csv", smooth_table(30));
  shop.write("m.mox", replaced(kModel, "H = 32", "H"));
  const std::vector<std::string> data = {"--data", "csv:t.csv", "--epochs", "1"};
  check_refused(replaced(kModel, "H = 32", "H"), {"m.mox:1:19: dim `H` has no value: neither x nor target shows it",
                                                  "dim S dynamic, I, H\n", "write dim H = 32, or give --dim H=32"});
  std::vector<std::string> with_dim = data;
  with_dim.insert(with_dim.end(), {"--dim", "H=5"});
  const Outcome trained = train(shop, "m.mox", with_dim);
  CAPTURE(trained.err);
  CHECK(trained.code == 0);
  CHECK(shop.moxie({"predict", "run", "--data", "csv:t.csv"}).code == 0);
}

TEST_CASE("a model may include files and define functions; its run holds all of them") {
  const Workshop shop;
  shop.write("t.csv", smooth_table(30));
  shop.write("parts.mox", "def activation(z) = softplus(z)\n");
  shop.write("m.mox", "include \"parts.mox\"\n" + replaced(kModel, "softplus(", "activation("));
  const Outcome trained = train(shop, "m.mox", {"--data", "csv:t.csv", "--epochs", "1"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  std::filesystem::create_directory(shop.path("library"));
  std::filesystem::rename(shop.path("parts.mox"), shop.path("library/parts.mox"));
  CHECK(shop.moxie({"predict", "run", "--data", "csv:t.csv"}).code == 0);
  std::filesystem::create_directory(shop.path("models"));
  shop.write("models/m.mox", "include \"../library/parts.mox\"\n" + replaced(kModel, "softplus(", "activation("));
  const std::vector<std::string> data = {"--data", "csv:t.csv", "--epochs", "1", "--dry-run"};
  CHECK(train(shop, "models/m.mox", data).code != 0);
  CHECK(
      shop.moxie({"train", "models/m.mox", "--include", "library", "--data", "csv:t.csv", "--epochs", "1", "--dry-run"})
          .code == 0);
}

TEST_CASE("parameters are inputs and predictions are outputs for the other commands") {
  const Workshop shop;
  shop.write("m.mox", kModel);
  const Outcome checked = shop.moxie({"check", "m.mox"});
  CAPTURE(checked.err);
  CAPTURE(checked.out);
  CHECK(checked.code == 0);
  CHECK(shop.moxie({"bench", "m.mox", "--dim", "S=16,I=3", "--json"}).code == 0);
  const Outcome dumped = shop.moxie({"dump", "m.mox", "--dim", "I=3", "--stage", "ir"});
  CHECK(dumped.out.find("predict mean[s] = ") != std::string::npos);
}

TEST_CASE("a layer with moments by quadrature learns, deviations and all") {
  const Workshop shop;
  shop.write("t.csv", smooth_table());
  copy_example(shop, "quadrature.mox");
  const Outcome trained =
      train(shop, "quadrature.mox", {"--data", "csv:t.csv", "--epochs", "400", "--batch", "32", "--rate", "0.03"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  const auto last = metrics_of(shop, "run").back();
  // That of a constant Gaussian is 0.5.
  CHECK(last.at("validation_loss").get<double>() < -0.8);
  CHECK(last.at("rmse").get<double>() < 0.3);
}

TEST_CASE("a mixture density finds two branches where a Gaussian finds their mean") {
  const Workshop shop;
  shop.write("t.csv", two_lines());
  copy_example(shop, "mixture.mox");
  const Outcome trained =
      train(shop, "mixture.mox", {"--data", "csv:t.csv", "--epochs", "100", "--batch", "32", "--rate", "0.02"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  // A Gaussian of standardised targets has log(2 pi)/2 + 1/2 = 1.42.
  CHECK(metrics_of(shop, "run").back().at("validation_loss").get<double>() < 0.4);
  CHECK(shop.moxie({"predict", "run", "--data", "csv:t.csv", "--out", "p.csv"}).code == 0);
  CHECK(read_file(shop.path("p.csv"))
            .starts_with("row,y,y_sd,y_low95,y_high95,centre_1,centre_2,centre_3,weight_1,weight_2,weight_3,y_true\n"));
}

TEST_CASE("attention by distance tells rings apart") {
  const Workshop shop;
  shop.write("t.csv", rings());
  copy_example(shop, "attention.mox");
  const Outcome trained =
      train(shop, "attention.mox", {"--data", "csv:t.csv", "--epochs", "100", "--batch", "32", "--rate", "0.02"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  // Constant probabilities have log(3) = 1.1.
  CHECK(metrics_of(shop, "run").back().at("test_nll").get<double>() < 0.5);
  CHECK(shop.moxie({"predict", "run", "--data", "csv:t.csv", "--diagnose", "jacobian"}).code == 0);
}

TEST_CASE("a state has another value after every step, and is saved") {
  const Workshop shop;
  shop.write("t.csv", smooth_table());
  shop.write("m.mox", R"(dim S dynamic, I
index s:S, i:I
input x[S,I], target[S]
state average[I] init zeros, steps init zeros
parameter w[I] init normal(0.1), c init zeros
let now[i] = sum[s](x[s,i])/S
next average[i] = 0.9*average[i] + 0.1*now[i]
next steps = steps + 1
predict mean[s] = sum[i](w[i]*(x[s,i] - average[i])) + c
predict seen[s] = steps
loss error = sum[s]((target[s] - sum[i](w[i]*(x[s,i] - now[i])) - c)^2)/S
)");
  const Outcome trained = train(shop, "m.mox", {"--data", "csv:t.csv", "--epochs", "3", "--batch", "32"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(shop.moxie({"predict", "run", "--data", "csv:t.csv", "--out", "p.csv"}).code == 0);
  const std::string predictions = read_file(shop.path("p.csv"));
  CHECK(predictions.starts_with("row,price,price_sd,price_low95,price_high95,seen,price_true\n"));
  // 360 training rows make 12 steps an epoch; the best epoch is one of the three.
  const std::string first = predictions.substr(predictions.find('\n') + 1);
  const std::string seen = first.substr(0, first.find('\n'));
  CHECK_MESSAGE((seen.find(",12,") != seen.npos || seen.find(",24,") != seen.npos || seen.find(",36,") != seen.npos),
                seen);
}

TEST_CASE("a model in double precision reads rows in double precision") {
  const Workshop shop;
  shop.write("t.csv", smooth_table(60));
  shop.write("m.mox", "dtype f64\n" + kModel);
  const Outcome trained = train(shop, "m.mox", {"--data", "csv:t.csv", "--epochs", "20", "--rate", "0.03"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(metrics_of(shop, "run").back().at("validation_loss").get<double>() < 0.5);
  CHECK(shop.moxie({"predict", "run", "--data", "csv:t.csv"}).code == 0);
  const Outcome resumed = shop.moxie({"train", "--resume", "run", "--epochs", "21"});
  CAPTURE(resumed.err);
  CHECK(resumed.code == 0);
}

TEST_CASE("a model may predict neither means nor probabilities: its loss is its score, and all predictions are kept") {
  const Workshop shop;
  shop.write("t.csv", smooth_table(60));
  // A quantile is no mean.
  shop.write("m.mox", R"(dim S dynamic, I, Q = 2
index s:S, i:I, q:Q
input x[S,I], target[S]
parameter w[Q,I] init normal(0.1), c[Q] init zeros
predict quantile[s,q] = c[q] + sum[i](w[q,i]*x[s,i])
let level[q] = 0.1 + 0.8*q
let short[s,q] = target[s] - quantile[s,q]
loss pinball = sum[s,q](max(level[q]*short[s,q], (level[q] - 1)*short[s,q]))/S
)");
  const Outcome trained = train(shop, "m.mox", {"--data", "csv:t.csv", "--epochs", "3"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.out.find("\ntest      loss 0.") != std::string::npos);
  CHECK(read_file(shop.path("run/report.html")).ends_with("</body></html>\n"));
  const Outcome predicted = shop.moxie({"predict", "run", "--data", "csv:t.csv", "--out", "p.csv", "--json"});
  CAPTURE(predicted.err);
  REQUIRE(predicted.code == 0);
  CHECK(nlohmann::json::parse(predicted.out).at("loss") == metrics_of(shop, "run").back().at("test_loss"));
  CHECK(read_file(shop.path("p.csv")).starts_with("row,quantile_1,quantile_2,price_true\n"));
  const Outcome jacobian = shop.moxie({"predict", "run", "--data", "csv:t.csv", "--diagnose", "jacobian"});
  CHECK(jacobian.err.find("the prediction mean, which the model does not have") != std::string::npos);
}

TEST_CASE("a variance that is negative ends the training") {
  const Workshop shop;
  shop.write("t.csv", smooth_table());
  shop.write("m.mox", replaced(kModel, "predict variance[s] = exp(2*log_sd)", "predict variance[s] = log_sd"));
  const Outcome trained = train(shop, "m.mox", {"--data", "csv:t.csv", "--target", "price", "--epochs", "2"});
  CHECK(trained.code == 1);
  CHECK_MESSAGE(trained.err.find("the model predicts -") != std::string::npos, trained.err);
}

TEST_CASE("what is wrong with a model is shown in its text") {
  check_refused("dim S dynamic, I\nindex s:S, i:I\ninput x[S,I]\npredict mean[s] = 0\n",
                {"m.mox:4:1: the model has no loss", "predict mean[s] = 0", "loss error = sum[s](...)/S"});
  check_refused("dim S dynamic, I\nindex s:S, i:I\ninput x[S,I]\nparameter w init ones\nloss e = sum[s](w*x[s,0])\n",
                {"m.mox:5:1: the model predicts nothing", "predict mean[s] = ..."});
  check_refused(replaced(kModel, "loss nll = sum[s](", "loss nll[s] = ("),
                {"m.mox:8:6: the loss `nll` is not a scalar: it has 1 axes", "^"});
  check_refused(replaced(kModel, " init zeros", ""), {"m.mox:4:35: `init` expected", "say how it starts"});
  check_refused(replaced(kModel, "init zeros", "init zero"), {"m.mox:4:41: `zero` is no way to start", "`zeros`"});
  check_refused(replaced(kModel, "target[S]", "target[S], price[S]"),
                {"m.mox:3:26: `price` is no input that a data set has", "parameter price init"});
  check_refused(replaced(kModel, "target[S]", "target[S,2]"), {"m.mox:8:20: `target` has the shape [S,2]"});
  check_refused(replaced(replaced(kModel, "target[S]", "target[S,2]"), "target[s]", "target[s,0]"),
                {"m.mox:3:15: `target` has 2 numbers for each sample, but the data has 1 targets"});
  check_refused(replaced(kModel, "predict mean[s] = sum[h](v[h]*z[s,h])", "predict mean[s] = target[s] + v[0]*z[s,0]"),
                {"m.mox:6:9: `mean` reads the target", "a prediction knows x"});
  check_refused(replaced(kModel, "predict variance", "predict mean[s] = 1\npredict variance"),
                {"m.mox:7:9: `mean` cannot name", "choose another"});
  check_refused(
      replaced(replaced(kModel, "predict variance[s] =", "predict variance ="), "2*variance[s]", "2*variance"),
      {"m.mox:7:9: `variance` has no row for each sample"});
  check_refused(replaced(kModel, "H = 32", "H = 32, Q dynamic"), {"m.mox:1:", "dim `Q` is dynamic"});
  check_refused(replaced(kModel, "dim S dynamic, I,", "dim S dynamic, I = 5,"),
                {"m.mox:1:16: dim `I` is 5 here, but the data has 2 features", "dim I"});
  check_refused(replaced(kModel, "log_sd init", "unused init ones, log_sd init"),
                {"m.mox:4:", "does not depend on parameter `unused`"});
  check_refused(kModel, {"column"}, {"--target", "prize"});
  check_refused(kModel, {"predict probability[s,c]"}, {"--task", "classify"});
  check_refused(kModel + "state t init zeros\n", {"m.mox:9:7: the state `t` never changes", "next t"});
}

TEST_CASE("features lie in the domain that a model declares, in training and when it predicts") {
  const Workshop shop;
  std::string model = kModel;
  model.replace(model.find("x[S,I]"), 6, "x[S,I] >= 0");
  shop.write("model.mox", model);
  shop.write("table.csv", "a,price\n0,1\n1,2\n2,3\n3,2\n4,4\n5,6\n6,5\n7,7\n8,9\n9,8\n");
  const Outcome trained = shop.moxie({"train", "model.mox", "--data", "csv:table.csv", "--target", "price", "--epochs",
                                      "1", "--threads", "1", "--out", "run"});
  REQUIRE_MESSAGE(trained.code == 0, trained.err);
  shop.write("new.csv", "a\n5\n-20\n");
  const Outcome outside = shop.moxie({"predict", "run", "--data", "csv:new.csv"});
  CHECK(outside.code == 1);
  CHECK(outside.err.find("a of sample 1 is ") != std::string::npos);
  CHECK_MESSAGE(outside.err.find("but the network's x is declared >= 0; leave such samples out, or train a network") !=
                    std::string::npos,
                outside.err);
}

TEST_CASE("options that the text decides about are refused") {
  const Workshop shop;
  shop.write("m.mox", kModel);
  const Outcome layers = shop.moxie({"train", "m.mox", "--layers", "3"});
  CHECK(layers.code == 2);
  CHECK(layers.err.find("--layers is not for the model m.mox") != std::string::npos);
  CHECK(shop.moxie({"train", "m.mox", "--propagate", "mean"}).code == 2);
  CHECK(shop.moxie({"train", "mlp", "--dim", "H=3"}).code == 2);
  CHECK(shop.moxie({"train", "missing.mox"}).err.find("cannot read missing.mox") != std::string::npos);
  CHECK(shop.moxie({"train", "gnp"}).err.find("'gnp'") != std::string::npos);
}
