#include "learn/ensemble.h"

namespace moxie {
namespace {

/// What the variance of an output over the passes is called.
const std::map<std::string, std::string> kVarianceOf = {
    {"probability", "probability_variance"}, {"logit_mean", "logit_var"}, {"mean", "variance"}};

}  // namespace

void Ensemble::add(const std::map<std::string, RowValues>& outputs) {
  ++count_;
  for (const auto& [name, values] : outputs) {
    auto [found, is_new] = moments_.try_emplace(name);
    Moments& moments = found->second;
    if (is_new) moments.mean = moments.squares = {values.columns, std::vector<double>(values.values.size())};
    for (std::size_t i = 0; i < values.values.size(); ++i) {
      const double before = values.values[i] - moments.mean.values[i];
      moments.mean.values[i] += before / count_;
      moments.squares.values[i] += before * (values.values[i] - moments.mean.values[i]);
    }
  }
}

std::map<std::string, RowValues> Ensemble::outputs() const {
  std::map<std::string, RowValues> result;
  for (const auto& [name, moments] : moments_) result[name] = moments.mean;
  const auto own_variance = moments_.find("variance");
  if (own_variance != moments_.end() && moments_.contains("mean"))
    result.try_emplace("aleatoric", own_variance->second.mean);
  for (const auto& [name, variance] : kVarianceOf) {
    const auto found = moments_.find(name);
    if (found == moments_.end()) continue;
    const RowValues& squares = found->second.squares;
    RowValues& sum =
        result.try_emplace(variance, RowValues{squares.columns, std::vector<double>(squares.values.size())})
            .first->second;
    for (std::size_t i = 0; i < squares.values.size(); ++i) sum.values[i] += squares.values[i] / count_;
  }
  return result;
}

}  // namespace moxie
