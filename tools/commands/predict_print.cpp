#include "tools/commands/predict_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "learn/calibration.h"
#include "learn/class_quality.h"
#include "learn/uncertainty_warnings.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;

Json calibration_json(const Prediction& prediction, const Samples& samples, const Encoding& encoding) {
  constexpr std::size_t kBins = 20;
  Json json;
  for (const CalibrationPoint& point : reliability(prediction, samples.y, encoding))
    json["reliability"].push_back({point.promised, point.found, point.count});
  if (prediction.task == Task::Regression)
    json["pit"] = histogram(probability_integral_transform(prediction, samples.y, encoding), kBins);
  return json;
}

Json classes_json(const Prediction& prediction, const Matrix& targets, const Encoding& encoding) {
  Json json;
  const std::vector<ClassQuality> classes = class_quality(prediction, targets);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const ClassQuality& q = classes[c];
    json["classes"].push_back({{"class", encoding.classes[c]},
                               {"samples", q.rows},
                               {"recall", q.recall()},
                               {"precision", q.precision()},
                               {"f1", q.f1()},
                               {"auc", q.auc}});
  }
  json["confusion"] = confusion_matrix(prediction, targets);
  return json;
}

/// Not more than fits a screen.
void print_classes(const Prediction& prediction, const Matrix& targets, const Encoding& encoding) {
  constexpr std::size_t kMost = 12;
  const std::vector<ClassQuality> classes = class_quality(prediction, targets);
  std::size_t width = 5;
  for (const std::string& name : encoding.classes) width = std::max(width, name.size());
  fmt::print("\n{:<{}} {:>8} {:>9} {:>9} {:>9} {:>9}\n", "class", width, "samples", "recall", "precision", "f1", "auc");
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const ClassQuality& q = classes[c];
    fmt::print("{:<{}} {:>8} {:>9} {:>9} {:>9} {:>9}\n", encoding.classes[c], width, q.rows, score_text(q.recall()),
               score_text(q.precision()), score_text(q.f1()), score_text(q.auc));
  }
  if (classes.size() > kMost) return;
  fmt::print("\nconfusion matrix: a line for each true class, a column for each predicted one\n{:<{}}", "", width);
  for (const std::string& name : encoding.classes) fmt::print(" {:>8.8}", name);
  const auto counts = confusion_matrix(prediction, targets);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    fmt::print("\n{:<{}}", encoding.classes[c], width);
    for (const std::size_t count : counts[c]) fmt::print(" {:>8}", count);
  }
  fmt::print("\n");
}

}  // namespace

void print_scores(const PrintedScores& printed, const std::function<double()>& loss, bool json) {
  const auto& [prediction, rows, model] = printed;
  const Encoding& encoding = model.encoding;
  const Matrix& targets = rows.samples.y;
  Scores scores = score(prediction, targets, encoding);
  if (scores.empty()) scores = {{"loss", loss()}};
  const std::vector<std::string> warnings = uncertainty_warnings(prediction, scores, model.config);
  const bool has_classes = !prediction.probability.empty();
  if (json) {
    Json result = {{"samples", prediction.rows}, {"rows", rows.description}};
    for (const Score& s : scores) result[s.name] = s.value;
    if (prediction.has_scores()) result.update(calibration_json(prediction, rows.samples, encoding));
    if (has_classes) result.update(classes_json(prediction, targets, encoding));
    if (!warnings.empty()) result["warnings"] = warnings;
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("{:<12} {}\n", "rows", rows.description);
  for (const Score& s : scores)
    fmt::print("{:<12} {}\n", s.name, std::isnan(s.value) ? "-" : fmt::format("{:.6g}", s.value));
  for (const std::string& warning : warnings) fmt::print("{:<12} {}\n", "warning", warning);
  if (has_classes) print_classes(prediction, targets, encoding);
}

}  // namespace moxie
