#include "data/class_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "compiler/support/error.h"

namespace moxie {
namespace {

std::vector<double> balanced(const Samples& train) {
  std::vector<double> weights(train.y.columns);
  for (std::size_t row = 0; row < train.rows(); ++row)
    for (std::size_t c = 0; c < weights.size(); ++c) weights[c] += train.y(row, c);
  const double share = static_cast<double>(train.rows()) / static_cast<double>(weights.size());
  for (double& weight : weights)
    weight = weight > 0 ? share / weight : 1;  // a class without rows weighs nothing anyway
  return weights;
}

/// Puts the weight of an entry CLASS=WEIGHT where it belongs.
void set_weight(const std::string& entry, const Encoding& encoding, std::vector<double>& weights) {
  const std::size_t equals = std::min(entry.rfind('='), entry.size());
  const auto found = std::ranges::find(encoding.classes, entry.substr(0, equals));
  if (equals == entry.size() || found == encoding.classes.end())
    throw DataError(fmt::format("--class-weight {}: give balanced, or CLASS=WEIGHT for some of the classes {}", entry,
                                fmt::join(encoding.classes, ", ")));
  double& weight = weights[static_cast<std::size_t>(found - encoding.classes.begin())];
  const char* end = entry.data() + entry.size();
  const auto [stop, error] = std::from_chars(entry.data() + equals + 1, end, weight);
  if (error != std::errc() || stop != end || !(weight > 0 && weight <= 1e6))
    throw DataError(fmt::format("--class-weight {}: the weight must be a positive number, at most 1000000", entry));
}

}  // namespace

std::vector<double> class_weights(const Dataset& data, const std::vector<std::string>& choice) {
  if (data.task() != Task::Classification)
    throw DataError(fmt::format("{}: --class-weight is for classes, but the targets are values", data.name));
  if (choice == std::vector<std::string>{"balanced"}) return balanced(data.train);
  std::vector<double> weights(data.encoding.classes.size(), 1);
  for (const std::string& entry : choice) set_weight(entry, data.encoding, weights);
  return weights;
}

Matrix weighted_targets(const Matrix& targets, const Encoding& encoding) {
  Matrix result = targets;
  if (encoding.class_weights.empty()) return result;
  for (std::size_t row = 0; row < result.rows; ++row)
    for (std::size_t c = 0; c < result.columns; ++c) result(row, c) *= static_cast<float>(encoding.class_weights[c]);
  return result;
}

}  // namespace moxie
