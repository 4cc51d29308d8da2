#include "tools/commands/predict_scores.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

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
  CHECK(score_of(scores, "coverage_50") == 0.5);
  CHECK(score_of(scores, "coverage_95") == 0.5);
}

TEST_CASE("a model without a variance has that of its residuals") {
  Encoding encoding;
  encoding.task = Task::Regression;
  encoding.targets = {{"y", 0, 2}};
  CHECK(make_prediction({{"mean", {1, {0, 1}}}}, encoding, 0.5).variance == std::vector<double>{2, 2});
}
