#pragma once
// What `moxie predict` says of predictions whose targets are known.
#include <functional>

#include "learn/chosen_rows.h"
#include "learn/scores.h"

namespace moxie {

struct PrintedScores {
  const Prediction& prediction;
  const ChosenRows& rows;
  const SavedModel& model;
};

/// Prints the scores, with warnings about uncertainties; of classes also the qualities of each and the confusion
/// matrix. As JSON with the points of the calibration plots. `loss` stands for scores where the prediction has none.
void print_scores(const PrintedScores& printed, const std::function<double()>& loss, bool json);

}  // namespace moxie
