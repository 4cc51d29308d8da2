#pragma once
// Predictions as a file.
#include <filesystem>

#include <vector>

#include "learn/scores.h"

namespace moxie {

struct WrittenPredictions {
  const Prediction& prediction;
  const Samples& samples;  // whose labels and known targets stand beside the predictions
  const Encoding& encoding;
  std::vector<double> levels = {0.95};  // probabilities of the central intervals of values
};

/// Writes a row for each sample to FILE.csv or to FILE.npz. In the text: the number of the row in its file, the columns
/// that are kept, the predictions (classes by name; values with standard deviation and intervals), a model's further
/// outputs, and the true class or values where they are known. Throws UsageError for another ending.
void write_predictions(const std::filesystem::path& file, const WrittenPredictions& written);

/// The half-width of the central interval of a standard normal distribution that holds this probability (0 to 1).
double interval_half_width(double probability);

}  // namespace moxie
