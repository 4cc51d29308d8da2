#include "learn/cross_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/support/error.h"
#include "data/file.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kTest = "test_";

/// NaN is null in JSON.
bool is_number(const Json& fold, const std::string& name) { return fold.contains(name) && fold[name].is_number(); }

bool has_number(const std::string& name, const std::vector<Json>& folds) {
  return std::ranges::any_of(folds, [&](const Json& fold) { return is_number(fold, name); });
}

FoldScore fold_score(const std::string& name, const std::vector<Json>& folds) {
  FoldScore score;
  score.name = name.substr(kTest.size());
  double sum = 0, squares = 0, count = 0;
  for (const Json& fold : folds) {
    const bool is_there = is_number(fold, name);
    score.values.push_back(is_there ? std::optional(fold[name].get<double>()) : std::nullopt);
    if (!is_there) continue;
    sum += *score.values.back();
    ++count;
  }
  score.mean = sum / count;
  for (const auto& value : score.values)
    if (value) squares += (*value - score.mean) * (*value - score.mean);
  if (count > 1) score.standard_error = std::sqrt(squares / (count - 1) / count);
  return score;
}

}  // namespace

std::vector<FoldScore> fold_scores(const std::vector<std::string>& final_metrics) {
  std::vector<Json> folds;
  for (const std::string& line : final_metrics) folds.push_back(Json::parse(line));
  std::vector<FoldScore> scores;
  for (const auto& [name, value] : folds.front().items())  // all have the same scores
    if (name.starts_with(kTest) && has_number(name, folds)) scores.push_back(fold_score(name, folds));
  return scores;
}

std::string describe_scores(const std::vector<FoldScore>& scores, std::size_t folds) {
  std::string text = fmt::format("{:<14}{:>12}{:>16}\n", "test score", "mean", "standard error");
  for (const FoldScore& score : scores) {
    const std::string error = score.standard_error ? fmt::format("{:.3g}", *score.standard_error) : "-";
    const auto count = static_cast<std::size_t>(
        std::ranges::count_if(score.values, [](const std::optional<double>& value) { return value.has_value(); }));
    text += fmt::format("{:<14}{:>12.5g}{:>16}{}\n", score.name, score.mean, error,
                        count < folds ? fmt::format("  of {} folds", count) : "");
  }
  return text;
}

std::string folds_json(const std::vector<FoldScore>& scores, std::size_t folds) {
  Json json = {{"folds", folds}, {"scores", Json::object()}};
  for (const FoldScore& score : scores) {
    Json& entry = json["scores"][score.name];
    entry["mean"] = score.mean;
    entry["standard_error"] = score.standard_error ? Json(*score.standard_error) : Json();
    for (const auto& value : score.values) entry["values"].push_back(value ? Json(*value) : Json());
  }
  return json.dump(2) + "\n";
}

fs::path fold_folder(const fs::path& folder, std::size_t fold) { return folder / fmt::format("fold-{}", fold); }

std::optional<TrainConfig> cross_validation_in(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  std::error_code error;
  if (!fs::exists(file, error) || fs::exists(folder / "checkpoint.safetensors", error)) return {};
  TrainConfig config = config_from_json(read_whole_file(file), file.string());
  check_file(config, file.string());
  return is_cross_validation(config) ? std::optional(std::move(config)) : std::nullopt;
}

void require_single_run(const fs::path& folder) {
  if (cross_validation_in(folder))
    throw DataError(fmt::format("{} is the folder of a cross-validation: name one of its runs, such as {}",
                                folder.string(), fold_folder(folder, 1).string()));
}

}  // namespace moxie
