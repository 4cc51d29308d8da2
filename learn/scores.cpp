#include "learn/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "compiler/support/error.h"
#include "learn/calibration.h"
#include "learn/class_quality.h"

namespace moxie {
namespace {

/// A probability of 0 in single precision would make the whole mean infinite.
constexpr double kLeastProbability = 1e-30;

/// Half widths of the central intervals of the standard normal distribution.
struct Interval {
  const char* name;
  double half_width;
};
constexpr std::array kIntervals = std::to_array<Interval>({
    {"coverage_50", 0.6744897501960817},
    {"coverage_80", 1.2815515655446004},
    {"coverage_90", 1.6448536269514722},
    {"coverage_95", 1.9599639845400545},
});

double entropy_term(double probability) { return probability > 0 ? -probability * std::log(probability) : 0; }

/// The mean distance between what was promised and what was found.
double calibration_error(const std::vector<CalibrationPoint>& points) {
  double gap = 0, count = 0;
  for (const CalibrationPoint& point : points) {
    gap += static_cast<double>(point.count) * std::abs(point.promised - point.found);
    count += static_cast<double>(point.count);
  }
  return gap / count;
}

/// Continuous ranked probability score of a standard normal distribution at `z`.
double normal_crps(double z) {
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return z * std::erf(z / std::numbers::sqrt2) + 2 * density - std::numbers::inv_sqrtpi;
}

Scores score_classes(const Prediction& p, const Matrix& targets, const Encoding& encoding) {
  double wrong = 0, brier = 0, entropy = 0;
  for (std::size_t row = 0; row < p.rows; ++row) {
    for (std::size_t c = 0; c < p.columns; ++c) {
      const double probability = p.probability[row * p.columns + c];
      const double target = targets(row, c);
      brier += (probability - target) * (probability - target);
      entropy += entropy_term(probability);
    }
    wrong += 1 - targets(row, top_class(p, row));
  }
  const auto rows = static_cast<double>(p.rows);
  Scores scores = {{"error", wrong / rows},
                   {"nll", log_loss(p, targets)},
                   {"brier", brier / rows},
                   {"ece", calibration_error(reliability(p, targets, encoding))},
                   {"sharpness", entropy / rows}};
  const Scores of_classes = macro_scores(p, targets);
  scores.insert(scores.end(), of_classes.begin(), of_classes.end());
  return scores;
}

Scores score_values(const Prediction& p, const Matrix& targets, const Encoding& encoding) {
  double squares = 0, absolute = 0, nll = 0, crps = 0, deviation = 0;
  std::array<double, kIntervals.size()> inside{};
  for (std::size_t i = 0; i < p.mean.size(); ++i) {
    const TargetEncoding& target = encoding.targets[i % p.columns];
    const double error = p.mean[i] - (targets.values[i] * target.sd + target.mean);
    const double sd = std::sqrt(p.variance[i]);
    squares += error * error;
    absolute += std::abs(error);
    nll += 0.5 * (std::log(2 * std::numbers::pi * p.variance[i]) + error * error / p.variance[i]);
    crps += sd == 0 ? std::abs(error) : sd * normal_crps(error / sd);
    deviation += sd;
    for (std::size_t k = 0; k < kIntervals.size(); ++k) inside[k] += std::abs(error) <= kIntervals[k].half_width * sd;
  }
  const auto count = static_cast<double>(p.mean.size());
  Scores scores = {{"rmse", std::sqrt(squares / count)},
                   {"nll", nll / count},
                   {"mae", absolute / count},
                   {"crps", crps / count},
                   {"ece", calibration_error(reliability(p, targets, encoding))},
                   {"pit_ks", uniform_distance(probability_integral_transform(p, targets, encoding))},
                   {"sharpness", deviation / count}};
  for (std::size_t k = 0; k < kIntervals.size(); ++k) scores.push_back({kIntervals[k].name, inside[k] / count});
  if (!p.aleatoric.empty()) {
    double noise = 0, all = 0;
    for (std::size_t i = 0; i < p.mean.size(); ++i) {
      noise += p.aleatoric[i] / count;
      all += p.variance[i] / count;
    }
    scores.push_back({"aleatoric_sd", std::sqrt(noise)});
    scores.push_back({"epistemic_sd", std::sqrt(std::max(0.0, all - noise))});
  }
  return scores;
}

std::size_t row_count(const std::map<std::string, RowValues>& outputs) {
  for (const auto& [name, values] : outputs)
    if (values.columns > 0) return values.values.size() / values.columns;
  throw InternalError("a model's predictions have no rows");
}

std::vector<double> select_values(const std::vector<double>& values, std::size_t columns,
                                  std::span<const std::size_t> rows) {
  std::vector<double> result;
  if (values.empty()) return result;
  for (const std::size_t row : rows) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * columns);
    result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(columns));
  }
  return result;
}

}  // namespace

Prediction Prediction::select(std::span<const std::size_t> some) const {
  Prediction result{task, some.size(), columns, {}, {}, {}};
  result.probability = select_values(probability, columns, some);
  result.mean = select_values(mean, columns, some);
  result.variance = select_values(variance, columns, some);
  result.aleatoric = select_values(aleatoric, columns, some);
  for (const auto& [name, values] : others)
    result.others[name] = {values.columns, select_values(values.values, values.columns, some)};
  return result;
}

Prediction make_prediction(std::map<std::string, RowValues> outputs, const Encoding& encoding, double variance_scale) {
  Prediction p{encoding.task, row_count(outputs), encoding.target_count(), {}, {}, {}};
  auto first = outputs.extract(p.task == Task::Classification ? "probability" : "mean");
  if (!first || p.task == Task::Classification) {
    if (first) p.probability = std::move(first.mapped().values);
    p.others = std::move(outputs);
    return p;
  }
  p.mean = std::move(first.mapped().values);
  const auto variance = outputs.extract("variance");
  p.variance = variance ? std::move(variance.mapped().values) : std::vector<double>(p.mean.size(), 1);
  if (const auto noise = outputs.find("aleatoric"); noise != outputs.end() && noise->second.columns == p.columns)
    p.aleatoric = std::move(outputs.extract(noise).mapped().values);
  p.others = std::move(outputs);
  for (std::size_t i = 0; i < p.mean.size(); ++i) {
    const TargetEncoding& target = encoding.targets[i % p.columns];
    p.mean[i] = p.mean[i] * target.sd + target.mean;
    p.variance[i] *= variance_scale * target.sd * target.sd;
    if (!p.aleatoric.empty()) p.aleatoric[i] *= variance_scale * target.sd * target.sd;
  }
  return p;
}

Prediction constant_prediction(const Samples& train, const Encoding& encoding, std::size_t rows) {
  const std::size_t columns = train.y.columns;
  std::vector<double> mean(columns), variance(columns);
  const auto count = static_cast<double>(train.rows());
  for (std::size_t i = 0; i < train.y.values.size(); ++i) mean[i % columns] += train.y.values[i] / count;
  for (std::size_t i = 0; i < train.y.values.size(); ++i) {
    const double distance = train.y.values[i] - mean[i % columns];
    variance[i % columns] += distance * distance / count;
  }
  std::map<std::string, RowValues> outputs;
  const bool classes = encoding.task == Task::Classification;
  RowValues& means = outputs[classes ? "probability" : "mean"];
  means.columns = columns;
  for (std::size_t row = 0; row < rows; ++row) means.values.insert(means.values.end(), mean.begin(), mean.end());
  if (!classes) {
    RowValues& variances = outputs["variance"];
    variances.columns = columns;
    for (std::size_t row = 0; row < rows; ++row)
      variances.values.insert(variances.values.end(), variance.begin(), variance.end());
  }
  return make_prediction(std::move(outputs), encoding, 1);
}

Scores score(const Prediction& prediction, const Matrix& targets, const Encoding& encoding) {
  if (!prediction.has_scores()) return {};
  return prediction.task == Task::Classification ? score_classes(prediction, targets, encoding)
                                                 : score_values(prediction, targets, encoding);
}

double log_loss(const Prediction& prediction, const Matrix& targets) {
  double sum = 0;
  for (std::size_t row = 0; row < prediction.rows; ++row) {
    for (std::size_t c = 0; c < prediction.columns; ++c) {
      const double target = targets(row, c);
      const double probability = prediction.probability[row * prediction.columns + c];
      if (target > 0) sum -= target * std::log(std::max(probability, kLeastProbability));
    }
  }
  return sum / static_cast<double>(prediction.rows);
}

std::string score_text(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

double score_of(const Scores& scores, const std::string& name) {
  const auto found = std::ranges::find(scores, name, &Score::name);
  if (found == scores.end()) throw InternalError(fmt::format("there is no score '{}'", name));
  return found->value;
}

std::size_t top_class(const Prediction& prediction, std::size_t row) {
  const auto begin = prediction.probability.begin() + static_cast<std::ptrdiff_t>(row * prediction.columns);
  return static_cast<std::size_t>(std::max_element(begin, begin + static_cast<std::ptrdiff_t>(prediction.columns)) -
                                  begin);
}

}  // namespace moxie
