#pragma once
// What users should know of predicted uncertainties before they rely on them.
#include <string>
#include <vector>

#include "learn/scores.h"
#include "learn/train_config.h"

namespace moxie {

/// Values: that the predicted standard deviation hardly varies, and that the 90 % intervals hold more or fewer of the
/// targets than they should by more than chance explains. Sentences; none where nothing is wrong, for classes, and for
/// too few samples.
std::vector<std::string> uncertainty_warnings(const Prediction& prediction, const Scores& scores,
                                              const TrainConfig& config);

}  // namespace moxie
