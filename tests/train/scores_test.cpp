#include "learn/scores.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "learn/calibration.h"
#include "learn/class_quality.h"
#include "learn/cross_validation.h"
#include "learn/ensemble.h"
#include "learn/jacobians.h"
#include "learn/uncertainty_warnings.h"

namespace {

using namespace moxie;

Encoding classes(std::size_t count) {
  Encoding encoding;
  encoding.classes.resize(count);
  return encoding;
}

Matrix one_hot(const std::vector<std::size_t>& classes, std::size_t count) {
  Matrix matrix(classes.size(), count);
  for (std::size_t row = 0; row < classes.size(); ++row) matrix(row, classes[row]) = 1;
  return matrix;
}

}  // namespace

TEST_CASE("scores of classes") {
  const Encoding encoding = classes(2);
  const Prediction p = make_prediction({{"probability", {2, {0.8, 0.2, 0.7, 0.3, 0.25, 0.75}}}}, encoding, 1);
  const Scores scores = score(p, one_hot({0, 1, 1}, 2), encoding);
  CHECK(score_of(scores, "error") == doctest::Approx(1.0 / 3));
  CHECK(score_of(scores, "nll") == doctest::Approx(-std::log(0.8 * 0.3 * 0.75) / 3));
  CHECK(score_of(scores, "brier") == doctest::Approx((0.08 + 0.98 + 0.125) / 3));
  // bins of width 1/15: 0.8 right, and 0.7 wrong apart from 0.75 right
  CHECK(score_of(scores, "ece") == doctest::Approx((0.2 + 0.7 + 0.25) / 3));
}

TEST_CASE("recall, precision, F1, ROC AUC and the confusion matrix") {
  const Encoding encoding = classes(3);
  // Of class 0 one row is taken for class 1; nothing is taken for class 2, which has no rows.
  const Prediction p = make_prediction(
      {{"probability", {3, {0.7, 0.2, 0.1, 0.3, 0.6, 0.1, 0.2, 0.7, 0.1, 0.3, 0.6, 0.1}}}}, encoding, 1);
  const Matrix targets = one_hot({0, 0, 1, 1}, 3);
  const auto quality = class_quality(p, targets);
  CHECK(quality[0].recall() == 0.5);
  CHECK(quality[0].precision() == 1);
  CHECK(quality[1].precision() == doctest::Approx(2.0 / 3));
  CHECK(quality[1].f1() == doctest::Approx(0.8));
  // Pairs of a row of class 0 and another one: 0.7 is above both, 0.3 above 0.2 and equal to 0.3.
  CHECK(quality[0].auc == doctest::Approx(3.5 / 4));
  CHECK(std::isnan(quality[2].recall()));
  CHECK(std::isnan(quality[2].auc));
  CHECK(confusion_matrix(p, targets) == std::vector<std::vector<std::size_t>>{{1, 1, 0}, {0, 2, 0}, {0, 0, 0}});
  const Scores scores = score(p, targets, encoding);
  CHECK(score_of(scores, "recall") == doctest::Approx(0.75));
  CHECK(score_of(scores, "precision") == doctest::Approx((1 + 2.0 / 3) / 2));
}

TEST_CASE("a constant prediction has the frequencies of the classes, or mean and variance of the targets") {
  const Encoding encoding = classes(2);
  const Prediction p = constant_prediction({Matrix(4, 1), one_hot({0, 0, 0, 1}, 2)}, encoding, 2);
  CHECK(p.probability == std::vector<double>{0.75, 0.25, 0.75, 0.25});
  Encoding values;
  values.task = Task::Regression;
  values.targets = {{"y", 100, 10}};
  Samples train{Matrix(2, 1), Matrix(2, 1)};
  train.y(1, 0) = 2;
  const Prediction constant = constant_prediction(train, values, 1);
  CHECK(constant.mean == std::vector<double>{110});
  CHECK(constant.variance == std::vector<double>{100});
}

TEST_CASE("scores of values, in the units of the data") {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.targets = {{"y", 100, 10}};
  const Prediction p = make_prediction({{"mean", {1, {0, 1}}}, {"variance", {1, {0.04, 0.25}}}}, encoding, 1);
  CHECK(p.mean == std::vector<double>{100, 110});
  Matrix targets(2, 1);
  targets(0, 0) = 0.5;   // 105: 2.5 standard deviations of 2
  targets(1, 0) = 0.75;  // 107.5: half a standard deviation of 5
  const Scores scores = score(p, targets, encoding);
  CHECK(score_of(scores, "rmse") == doctest::Approx(std::sqrt((25 + 6.25) / 2)));
  CHECK(score_of(scores, "mae") == doctest::Approx(3.75));
  const double constant = std::log(2 * std::numbers::pi);
  CHECK(score_of(scores, "nll") == doctest::Approx(0.25 * (2 * constant + std::log(4) + std::log(25) + 6.25 + 0.25)));
  // CRPS of a standard normal distribution at its mean is 0.2336950
  const Prediction certain =
      make_prediction({{"mean", {1, {0.5, 0.75}}}, {"variance", {1, {0.04, 0.25}}}}, encoding, 1);
  CHECK(score_of(score(certain, targets, encoding), "crps") == doctest::Approx(0.2336950 * 3.5).epsilon(1e-6));
  CHECK(score_of(scores, "sharpness") == doctest::Approx(3.5));
  CHECK(score_of(scores, "coverage_50") == 0.5);
  CHECK(score_of(scores, "coverage_95") == 0.5);
}

TEST_CASE("a prediction without any variance has a CRPS, but no density to take the logarithm of") {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.targets = {{"y", 0, 1}};
  const Prediction p = make_prediction({{"mean", {1, {0, 0}}}, {"variance", {1, {0, 0}}}}, encoding, 1);
  Matrix targets(2, 1);
  targets(1, 0) = 3;
  const Scores scores = score(p, targets, encoding);
  CHECK(score_text(score_of(scores, "nll")) == "-");
  CHECK(score_of(scores, "crps") == 1.5);  // the mean absolute error
  CHECK(probability_integral_transform(p, targets, encoding) == std::vector<double>{0.5, 1});
  CHECK(score_of(scores, "pit_ks") == 0.5);
}

TEST_CASE("predictions that are NaN have no scores, and are left out of histograms and warnings") {
  const double nan = std::nan("");
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.targets = {{"y", 0, 1}};
  RowValues mean{1, std::vector<double>(40)}, variance{1, std::vector<double>(40, -1)};
  for (std::size_t k = 0; k < 40; k += 2) mean.values[k] = nan;
  const Prediction p = make_prediction({{"mean", mean}, {"variance", variance}}, encoding, 1);
  const Matrix targets(40, 1);
  const Scores scores = score(p, targets, encoding);
  for (const char* name : {"rmse", "nll", "crps", "pit_ks", "sharpness"}) CHECK(std::isnan(score_of(scores, name)));
  const std::vector<double> u = probability_integral_transform(p, targets, encoding);
  CHECK(std::isnan(uniform_distance(u)));
  CHECK(histogram(u, 2) == std::vector<double>{0, 0});
  for (const std::string& warning : uncertainty_warnings(p, scores, {}))
    CHECK(warning.find("nan") == std::string::npos);

  const Prediction classified = make_prediction({{"probability", {2, {0.75, 0.25, nan, nan}}}}, classes(2), 1);
  CHECK(std::isnan(score_of(score(classified, one_hot({0, 1}, 2), classes(2)), "ece")));
}

TEST_CASE("predicted variances are scaled, and 1 where there are none") {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.targets = {{"y", 0, 2}};
  CHECK(make_prediction({{"mean", {1, {0, 1}}}}, encoding, 0.5).variance == std::vector<double>{2, 2});
  CHECK(make_prediction({{"mean", {1, {0, 1}}}, {"variance", {1, {1, 3}}}}, encoding, 0.5).variance ==
        std::vector<double>{2, 6});
}

TEST_CASE("the variance has an aleatoric and an epistemic part where the model tells them apart") {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.targets = {{"y", 0, 2}};
  const Prediction p =
      make_prediction({{"mean", {1, {0}}}, {"variance", {1, {1}}}, {"aleatoric", {1, {0.75}}}}, encoding, 0.5);
  CHECK(p.aleatoric == std::vector<double>{1.5});
  const Scores scores = score(p, Matrix(1, 1), encoding);
  CHECK(score_of(scores, "aleatoric_sd") == doctest::Approx(std::sqrt(1.5)));
  CHECK(score_of(scores, "epistemic_sd") == doctest::Approx(std::sqrt(0.5)));
  // Passes of an ensemble differ by what the model does not know.
  Ensemble ensemble;
  for (const double mean : {-1, 1}) ensemble.add({{"mean", {1, {mean}}}, {"variance", {1, {0.25}}}});
  const auto outputs = ensemble.outputs();
  CHECK(outputs.at("variance").values == std::vector<double>{1.25});
  CHECK(outputs.at("aleatoric").values == std::vector<double>{0.25});
}

TEST_CASE("warnings about deviations that are all the same, and about intervals that hold too little") {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.targets = {{"y", 0, 1}};
  TrainConfig config;
  const auto warnings = [&](double scale, double variation) {
    RowValues mean{1, {}}, variance{1, {}};
    Matrix targets(100, 1);
    for (std::size_t k = 0; k < 100; ++k) {
      const double sd = 1 + variation * static_cast<double>(k % 2);
      mean.values.push_back(0);
      variance.values.push_back(scale * sd * sd);
      // Quantiles of a uniform distribution of variance 1 are near enough to those of a normal one.
      targets(k, 0) = static_cast<float>(sd * std::sqrt(12.0) * (static_cast<double>(k) / 99 - 0.5));
    }
    const Prediction p = make_prediction({{"mean", mean}, {"variance", variance}}, encoding, 1);
    return uncertainty_warnings(p, score(p, targets, encoding), config);
  };
  CHECK(warnings(1, 1).empty());
  REQUIRE(warnings(1, 0).size() == 1);
  CHECK(
      warnings(1, 0)[0] ==
      "the predicted standard deviation hardly varies (1 to 1 for nine samples in ten): it says how large errors are, "
      "but not where");
  config.likelihood = "expected";
  CHECK(warnings(1, 0)[0].ends_with("but not where; --likelihood beta-nll lets it vary"));
  REQUIRE(warnings(0.01, 1).size() == 1);
  CHECK(warnings(0.01, 1)[0].find("% of the targets: predicted standard deviations are too small") !=
        std::string::npos);
  config.recalibrate = false;
  CHECK(warnings(0.01, 1)[0].ends_with("; --recalibrate scales them"));
}

TEST_CASE("the probability integral transform and its distance from uniform") {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.targets = {{"y", 0, 1}};
  const Prediction p = make_prediction({{"mean", {1, {0, 0, 0}}}, {"variance", {1, {1, 1, 4}}}}, encoding, 1);
  Matrix targets(3, 1);
  targets(1, 0) = 1.6448536269514722F;
  targets(2, 0) = -1.6448536269514722F * 2;
  const std::vector<double> u = probability_integral_transform(p, targets, encoding);
  CHECK(u[0] == doctest::Approx(0.5));
  CHECK(u[1] == doctest::Approx(0.95));
  CHECK(u[2] == doctest::Approx(0.05));
  CHECK(uniform_distance(u) == doctest::Approx(0.95 - 2.0 / 3));
  CHECK(histogram(u, 3) == std::vector<double>{1, 1, 1});
  const std::vector<CalibrationPoint> points = reliability(p, targets, encoding);
  CHECK(points.size() == 19);
  CHECK(points[9].promised == doctest::Approx(0.5));
  CHECK(points[9].found == doctest::Approx(1.0 / 3));
  CHECK(points[18].found == doctest::Approx(1));
}

TEST_CASE("singular values") {
  const std::vector<double> values = singular_values({3, 0, 0, 0, -2, 0}, 2, 3);
  CHECK(values[0] == doctest::Approx(3));
  CHECK(values[1] == doctest::Approx(2));
  // of [1 1; 0 1]: the golden ratio and its inverse
  const std::vector<double> shear = singular_values({1, 1, 0, 1, 0, 0}, 3, 2);
  CHECK(shear[0] == doctest::Approx(std::numbers::phi));
  CHECK(shear[1] == doctest::Approx(1 / std::numbers::phi));
  const std::vector<SpectrumLine> lines = spectrum({4, 2, 8, 2, 6, 3}, 2);
  CHECK(lines[0].median == doctest::Approx(6));
  CHECK(lines[1].median == doctest::Approx(0.5));
  CHECK(lines[1].low == doctest::Approx(0.25));
}

TEST_CASE("matrices that are not finite have no singular values, and samples without them are left out") {
  const double nan = std::nan("");
  const std::vector<double> values = singular_values({1, nan, 0, 0, 1, 0}, 2, 3);
  REQUIRE(values.size() == 2);
  CHECK(std::isnan(values[0]));
  const std::vector<SpectrumLine> lines = spectrum({nan, nan, 8, 2, nan, nan}, 2);
  CHECK(lines[0].high == 8);
  CHECK(lines[1].median == 0.25);
  CHECK(std::isnan(spectrum({nan}, 1)[0].median));
}

TEST_CASE("a score that the first fold does not have is that of the others, and one that none has is left out") {
  const auto scores = fold_scores(
      {R"({"test_auc":null,"test_nll":null,"test_rmse":1})", R"({"test_auc":0.5,"test_nll":null,"test_rmse":2})"});
  REQUIRE(scores.size() == 2);
  CHECK(scores[0].name == "auc");
  CHECK(scores[0].mean == 0.5);
  CHECK_FALSE(scores[0].values[0]);
  CHECK(scores[1].mean == 1.5);
}

TEST_CASE("the Jacobian of a linear network is its matrix") {
  const Program program = parse(
      "dim S dynamic, M = 2, D = 3\nindex s:S, m:M, d:D\ninput x[S,M], W[M,D]\n"
      "output y[s,d] = sum[m](x[s,m]*W[m,d])\n");
  const std::vector<float> x(600, 0.5F);
  const HostTensor W = make_host_tensor(DType::f32, {2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6});
  const std::vector<double> all = jacobians(program, "y", {{"W", W}}, {300, x, {}}, open_device("interp"));
  REQUIRE(all.size() == 1800);
  const std::vector<double> want = {1, 4, 2, 5, 3, 6};
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == want[i % 6]);
}
