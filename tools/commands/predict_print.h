#pragma once
// What `moxie predict` says of predictions whose targets are known.
#include <functional>

#include "tools/commands/predict_rows.h"
#include "tools/commands/predict_scores.h"

namespace moxie {

/// Prints the scores; of classes also the qualities of each and the confusion matrix. As JSON with the points of the
/// calibration plots. `loss` stands for scores where the prediction has none.
void print_scores(const Prediction& prediction, const ChosenRows& rows, const Encoding& encoding,
                  const std::function<double()>& loss, bool json);

}  // namespace moxie
