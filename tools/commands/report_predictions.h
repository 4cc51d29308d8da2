#pragma once
// The part of report.html about predictions of the test rows.
#include <string>
#include <vector>

#include "learn/scores.h"
#include "tools/commands/report_chart.h"

namespace moxie {

/// Classes: reliability, and how many samples each of its points stands for. Values: reliability, and the probability
/// integral transform. Nothing for predictions without scores.
std::vector<Chart> calibration_charts(const Prediction& prediction, const Matrix& targets, const Encoding& encoding);

/// " [EUR]": the unit of a target as labels show it, if it has one. `units` has one for each target, or for all.
std::string unit_label(const std::vector<std::string>& units, std::size_t target);

/// Values: of each of the first targets, what was predicted against what was observed, and the errors against the
/// predicted standard deviations.
std::vector<Chart> accuracy_charts(const Prediction& prediction, const Matrix& targets, const Encoding& encoding,
                                   const std::vector<std::string>& units);

/// Classes: recall, precision, F1 and ROC AUC of each, and the confusion matrix where it is not too large.
std::string class_tables(const Prediction& prediction, const Matrix& targets, const Encoding& encoding);

}  // namespace moxie
