#pragma once
// Predictions as a file.
#include <filesystem>

#include "tools/commands/predict_scores.h"

namespace moxie {

/// Writes a row for each sample to FILE.csv (classes by name; values with standard deviation and 95 % interval) or to
/// FILE.npz; a model's further outputs follow as columns or arrays. Throws UsageError for another ending.
void write_predictions(const std::filesystem::path& file, const Prediction& prediction, const Encoding& encoding);

}  // namespace moxie
