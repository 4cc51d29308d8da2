#include "learn/uncertainty_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace moxie {
namespace {

/// Fewer say too little of coverages.
constexpr std::size_t kFewestSamples = 30;

/// The 5 % and the 95 % quantile of a target's predicted standard deviations; those that are NaN are left out.
std::pair<double, double> middle_of_deviations(const Prediction& p, std::size_t target) {
  std::vector<double> values;
  for (std::size_t row = 0; row < p.rows; ++row) values.push_back(std::sqrt(p.variance[row * p.columns + target]));
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return {0, std::numeric_limits<double>::infinity()};
  std::ranges::sort(values);
  const std::size_t tail = values.size() / 20;
  return {values[tail], values[values.size() - 1 - tail]};
}

std::string advice_on_variation(const TrainConfig& config) {
  if (config.model == "gpn" && config.propagate == "mean") return "; --propagate variance predicts one for each sample";
  if (config.model == "gpn" && likelihood_of(config) == "expected") return "; --likelihood beta-nll lets it vary";
  return {};
}

}  // namespace

std::vector<std::string> uncertainty_warnings(const Prediction& p, const Scores& scores, const TrainConfig& config) {
  std::vector<std::string> warnings;
  if (p.mean.empty() || p.rows < kFewestSamples) return warnings;
  constexpr double kHardly = 1.1;
  bool varies = false;
  for (std::size_t k = 0; k < p.columns && !varies; ++k) {
    const auto [low, high] = middle_of_deviations(p, k);
    varies = high > kHardly * low;
  }
  if (!varies) {
    const auto [low, high] = middle_of_deviations(p, 0);
    warnings.push_back(
        fmt::format("the predicted standard deviation hardly varies ({:.4g} to {:.4g} for nine samples "
                    "in ten): it says how large errors are, but not where{}",
                    low, high, advice_on_variation(config)));
  }
  constexpr double kLevel = 0.9, kTolerance = 0.04;
  const double found = score_of(scores, "coverage_90");
  const double chance = 3 * std::sqrt(kLevel * (1 - kLevel) / static_cast<double>(p.rows));
  if (std::abs(found - kLevel) > kTolerance + chance)
    warnings.push_back(fmt::format(
        "90 % intervals hold {:.3g} % of the targets: predicted standard deviations are too "
        "{}{}",
        100 * found, found < kLevel ? "small" : "large", config.recalibrate ? "" : "; --recalibrate scales them"));
  return warnings;
}

}  // namespace moxie
