#include "learn/class_quality.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace moxie {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double fraction(std::size_t part, std::size_t whole, double otherwise) {
  return whole == 0 ? otherwise : static_cast<double>(part) / static_cast<double>(whole);
}

/// The probability that a row of the class has a larger probability of it than a row of another one; rows that are
/// equal count half (Mann and Whitney).
double area_under_roc(const Prediction& p, const Matrix& targets, std::size_t c) {
  for (std::size_t row = 0; row < p.rows; ++row)
    if (std::isnan(p.probability[row * p.columns + c])) return kNone;
  std::vector<std::size_t> order(p.rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto value = [&](std::size_t row) { return p.probability[row * p.columns + c]; };
  std::ranges::sort(order, {}, value);
  double rank_sum = 0, positives = 0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && value(order[end]) == value(order[begin])) ++end;
    const double rank = static_cast<double>(begin + end + 1) / 2;
    for (std::size_t k = begin; k < end; ++k) {
      if (targets(order[k], c) <= 0) continue;
      rank_sum += rank;
      ++positives;
    }
  }
  const double negatives = static_cast<double>(p.rows) - positives;
  if (positives == 0 || negatives == 0) return kNone;
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

std::size_t true_class(const Matrix& targets, std::size_t row) {
  const auto values = targets.row(row);
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

}  // namespace

double ClassQuality::recall() const { return fraction(right, rows, kNone); }

double ClassQuality::precision() const { return fraction(right, predicted, 0); }

double ClassQuality::f1() const { return rows == 0 ? kNone : fraction(2 * right, rows + predicted, 0); }

std::vector<ClassQuality> class_quality(const Prediction& p, const Matrix& targets) {
  std::vector<ClassQuality> classes(p.columns);
  for (std::size_t row = 0; row < p.rows; ++row) {
    const std::size_t truth = true_class(targets, row), top = top_class(p, row);
    ++classes[truth].rows;
    ++classes[top].predicted;
    if (truth == top) ++classes[truth].right;
  }
  for (std::size_t c = 0; c < classes.size(); ++c) classes[c].auc = area_under_roc(p, targets, c);
  return classes;
}

std::vector<std::vector<std::size_t>> confusion_matrix(const Prediction& p, const Matrix& targets) {
  std::vector<std::vector<std::size_t>> counts(p.columns, std::vector<std::size_t>(p.columns));
  for (std::size_t row = 0; row < p.rows; ++row) ++counts[true_class(targets, row)][top_class(p, row)];
  return counts;
}

Scores macro_scores(const Prediction& p, const Matrix& targets) {
  Scores scores = {{"recall", 0}, {"precision", 0}, {"f1", 0}, {"auc", 0}};
  double classes = 0, with_auc = 0;
  for (const ClassQuality& each : class_quality(p, targets)) {
    if (each.rows == 0) continue;
    ++classes;
    scores[0].value += each.recall();
    scores[1].value += each.precision();
    scores[2].value += each.f1();
    if (std::isnan(each.auc)) continue;
    ++with_auc;
    scores[3].value += each.auc;
  }
  for (std::size_t k = 0; k < 3; ++k) scores[k].value /= classes;
  scores[3].value = with_auc > 0 ? scores[3].value / with_auc : kNone;
  return scores;
}

}  // namespace moxie
