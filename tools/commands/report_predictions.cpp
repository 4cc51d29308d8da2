#include "tools/commands/report_predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "learn/calibration.h"
#include "learn/class_quality.h"

namespace moxie {
namespace {

using Kind = Series::Kind;

constexpr std::size_t kPitBins = 20;
constexpr std::size_t kTargetsShown = 3;
constexpr std::size_t kPointsShown = 800;
constexpr std::size_t kClassesShown = 40;

/// The predictions and observations of one target, without the rows for which a model predicts NaN.
struct OneTarget {
  std::string name, unit;
  std::vector<double> mean, sd, observed;
};

OneTarget one_target(const Prediction& p, const Matrix& targets, const Encoding& encoding, std::size_t k) {
  const TargetEncoding& target = encoding.targets[k];
  OneTarget result{target.column, "", {}, {}, {}};
  for (std::size_t row = 0; row < p.rows; ++row) {
    const double mean = p.mean[row * p.columns + k], sd = std::sqrt(p.variance[row * p.columns + k]);
    if (std::isnan(mean) || std::isnan(sd)) continue;
    result.mean.push_back(mean);
    result.sd.push_back(sd);
    result.observed.push_back(targets(row, k) * target.sd + target.mean);
  }
  return result;
}

Chart observed_chart(const OneTarget& target) {
  Series points{Kind::Points, "", 0, {}, {}};
  const std::size_t step = (target.mean.size() + kPointsShown - 1) / kPointsShown;
  for (std::size_t row = 0; row < target.mean.size(); row += step) {
    points.x.push_back(target.observed[row]);
    points.y.push_back(target.mean[row]);
  }
  const auto [low, high] = std::ranges::minmax(points.x);
  return {fmt::format("{}: predicted against observed", target.name),
          "observed" + target.unit,
          "predicted" + target.unit,
          {{Kind::Line, "", 3, {low, high}, {low, high}}, points}};
}

/// Samples of like deviation together: the root mean square of their errors should be that deviation.
Chart deviation_chart(const OneTarget& target) {
  constexpr std::size_t kMostBins = 10, kLeastRows = 10;
  std::vector<std::size_t> order(target.sd.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t row) { return target.sd[row]; });
  const std::size_t bins = std::clamp(order.size() / kLeastRows, std::size_t{1}, kMostBins);
  Series points{Kind::Points, "", 0, {}, {}};
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const std::size_t begin = bin * order.size() / bins, end = (bin + 1) * order.size() / bins;
    double variance = 0, squares = 0;
    for (std::size_t k = begin; k < end; ++k) {
      const std::size_t row = order[k];
      variance += target.sd[row] * target.sd[row];
      squares += (target.mean[row] - target.observed[row]) * (target.mean[row] - target.observed[row]);
    }
    points.x.push_back(std::sqrt(variance / static_cast<double>(end - begin)));
    points.y.push_back(std::sqrt(squares / static_cast<double>(end - begin)));
  }
  const auto [low, high] = std::ranges::minmax(points.x);
  return {fmt::format("{}: error against deviation", target.name),
          "predicted standard deviation" + target.unit,
          "root mean square error" + target.unit,
          {{Kind::Line, "", 3, {low, high}, {low, high}}, points}};
}

std::string quality_table(const std::vector<ClassQuality>& classes, const Encoding& encoding) {
  std::string rows;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const ClassQuality& q = classes[c];
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        escaped(encoding.classes[c]), q.rows, score_text(q.recall()), score_text(q.precision()),
                        score_text(q.f1()), score_text(q.auc));
  }
  return fmt::format(
      "<h2>Classes</h2>\n<div class=\"scroll\"><table><tr><th>class</th><th>test samples</th><th>recall</th>"
      "<th>precision</th><th>F1</th><th>ROC AUC</th></tr>\n{}</table></div>\n",
      rows);
}

std::string confusion_table(const Prediction& prediction, const Matrix& targets, const Encoding& encoding) {
  const auto counts = confusion_matrix(prediction, targets);
  std::string text = "<tr><th></th>";
  for (const std::string& name : encoding.classes) text += fmt::format("<th>{}</th>", escaped(name));
  text += "</tr>\n";
  for (std::size_t c = 0; c < counts.size(); ++c) {
    text += fmt::format("<tr><th class=\"side\">{}</th>", escaped(encoding.classes[c]));
    for (std::size_t k = 0; k < counts.size(); ++k)
      text += fmt::format("<td{}>{}</td>", k == c ? " class=\"hit\"" : "", counts[c][k]);
    text += "</tr>\n";
  }
  return "<h2>Confusion matrix</h2>\n<p>A line for each true class, a column for each predicted one.</p>\n<div "
         "class=\"scroll\"><table>" +
         text + "</table></div>\n";
}

}  // namespace

std::vector<Chart> calibration_charts(const Prediction& prediction, const Matrix& targets, const Encoding& encoding) {
  if (!prediction.has_scores()) return {};
  const bool classes = prediction.task == Task::Classification;
  Series found{classes ? Kind::Points : Kind::Line, "", 0, {}, {}};
  Series counts{Kind::Bars, "", 2, {}, {}};
  for (const CalibrationPoint& point : reliability(prediction, targets, encoding)) {
    found.x.push_back(point.promised);
    found.y.push_back(point.found);
    counts.x.push_back(point.promised);
    counts.y.push_back(static_cast<double>(point.count));
  }
  const Series ideal{Kind::Line, "", 3, {0, 1}, {0, 1}};
  Chart reliable{"Reliability",
                 classes ? "confidence" : "probability of the central interval",
                 classes ? "share of right ones" : "share inside",
                 {ideal, found}};
  reliable.y_limits = {0, 1};
  if (classes) {
    Chart how_many{"Samples by confidence", "confidence", "samples", {counts}};
    how_many.x_limits = {0, 1};
    reliable.x_limits = {0, 1};
    return {reliable, how_many};
  }
  Series bars{
      Kind::Bars, "", 0, {}, histogram(probability_integral_transform(prediction, targets, encoding), kPitBins)};
  for (std::size_t k = 0; k < kPitBins; ++k)
    bars.x.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(kPitBins));
  return {reliable,
          {"Probability integral transform",
           "predictive distribution at the target",
           "density",
           {bars, {Kind::Line, "", 3, {0, 1}, {1, 1}}}}};
}

std::string unit_label(const std::vector<std::string>& units, std::size_t target) {
  return units.empty() ? "" : fmt::format(" [{}]", units[units.size() == 1 ? 0 : target]);
}

std::vector<Chart> accuracy_charts(const Prediction& prediction, const Matrix& targets, const Encoding& encoding,
                                   const std::vector<std::string>& units) {
  std::vector<Chart> charts;
  if (prediction.mean.empty()) return charts;
  for (std::size_t k = 0; k < std::min(prediction.columns, kTargetsShown); ++k) {
    OneTarget target = one_target(prediction, targets, encoding, k);
    if (target.mean.empty()) continue;
    target.unit = unit_label(units, k);
    charts.push_back(observed_chart(target));
    charts.push_back(deviation_chart(target));
  }
  return charts;
}

std::string class_tables(const Prediction& prediction, const Matrix& targets, const Encoding& encoding) {
  if (prediction.probability.empty()) return {};
  std::string text = quality_table(class_quality(prediction, targets), encoding);
  return prediction.columns > kClassesShown ? text : text + confusion_table(prediction, targets, encoding);
}

}  // namespace moxie
