#pragma once
// Cross-validation: the folder of the runs of all folds, and what their scores say together.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "learn/train_config.h"

namespace moxie {

/// A score of the test rows, over the folds.
struct FoldScore {
  std::string name;
  std::vector<std::optional<double>> values;  // of each fold; none where the fold's test rows do not allow it
  double mean = 0;                            // of those that are there
  std::optional<double> standard_error;       // of the mean: standard deviation / sqrt(count); none for one value
};

/// `final_metrics` are the last lines of metrics.jsonl of all folds. Scores come in the order of the first fold's.
std::vector<FoldScore> fold_scores(const std::vector<std::string>& final_metrics);
/// A table for people, a row for each score.
std::string describe_scores(const std::vector<FoldScore>& scores, std::size_t folds);
/// What folds.json holds.
std::string folds_json(const std::vector<FoldScore>& scores, std::size_t folds);

/// The folder of a fold, from 1.
std::filesystem::path fold_folder(const std::filesystem::path& folder, std::size_t fold);
/// The configuration of a cross-validation if the folder is that of one.
std::optional<TrainConfig> cross_validation_in(const std::filesystem::path& folder);
/// Throws DataError for such a folder where the folder of one run is expected.
void require_single_run(const std::filesystem::path& folder);

}  // namespace moxie
