#include "learn/calibration.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace moxie {
namespace {

constexpr std::size_t kConfidenceBins = 15;
constexpr std::size_t kCalibrationIntervals = 19;

std::vector<CalibrationPoint> confidence_bins(const Prediction& p, const Matrix& targets) {
  std::vector<CalibrationPoint> bins(kConfidenceBins);
  for (std::size_t row = 0; row < p.rows; ++row) {
    const std::size_t top = top_class(p, row);
    const double confidence = std::clamp(p.probability[row * p.columns + top], 0.0, 1.0);
    // NaN is in the first bin, which it makes NaN.
    const auto bin = confidence > 0 ? static_cast<std::size_t>(confidence * static_cast<double>(kConfidenceBins)) : 0;
    CalibrationPoint& point = bins[std::min(bin, kConfidenceBins - 1)];
    point.promised += confidence;
    point.found += targets(row, top);
    ++point.count;
  }
  std::erase_if(bins, [](const CalibrationPoint& bin) { return bin.count == 0; });
  for (CalibrationPoint& bin : bins) {
    bin.promised /= static_cast<double>(bin.count);
    bin.found /= static_cast<double>(bin.count);
  }
  return bins;
}

std::vector<CalibrationPoint> interval_coverage(const std::vector<double>& transform) {
  std::vector<CalibrationPoint> points;
  for (std::size_t k = 1; k <= kCalibrationIntervals; ++k) {
    const double probability = static_cast<double>(k) / static_cast<double>(kCalibrationIntervals + 1);
    const auto inside = std::ranges::count_if(transform, [&](double u) { return std::abs(2 * u - 1) <= probability; });
    points.push_back(
        {probability, static_cast<double>(inside) / static_cast<double>(transform.size()), transform.size()});
  }
  return points;
}

}  // namespace

std::vector<CalibrationPoint> reliability(const Prediction& prediction, const Matrix& targets,
                                          const Encoding& encoding) {
  if (prediction.task == Task::Classification) return confidence_bins(prediction, targets);
  return interval_coverage(probability_integral_transform(prediction, targets, encoding));
}

std::vector<double> probability_integral_transform(const Prediction& p, const Matrix& targets,
                                                   const Encoding& encoding) {
  std::vector<double> values;
  for (std::size_t i = 0; i < p.mean.size(); ++i) {
    const TargetEncoding& target = encoding.targets[i % p.columns];
    const double distance = targets.values[i] * target.sd + target.mean - p.mean[i];
    const double z = distance == 0 && p.variance[i] == 0 ? 0 : distance / std::sqrt(p.variance[i]);
    values.push_back(std::erfc(-z / std::numbers::sqrt2) / 2);
  }
  return values;
}

std::vector<double> histogram(const std::vector<double>& values, std::size_t bins) {
  std::vector<double> density(bins);
  const double share = static_cast<double>(bins) / static_cast<double>(values.size());
  for (const double value : values) {
    if (std::isnan(value)) continue;
    const auto bin = static_cast<std::size_t>(std::clamp(value, 0.0, 1.0) * static_cast<double>(bins));
    density[std::min(bin, bins - 1)] += share;
  }
  return density;
}

double uniform_distance(std::vector<double> values) {
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) return std::nan("");
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto before = static_cast<double>(i);
    distance = std::max({distance, values[i] - before / count, (before + 1) / count - values[i]});
  }
  return distance;
}

}  // namespace moxie
