#pragma once
// report.html of a run: everything about it on one self-contained page.
#include <string>
#include <vector>

#include "learn/run_folder.h"
#include "learn/training_run.h"
#include "tools/commands/report_chart.h"

namespace moxie {

/// Loss, error and learning rate over the epochs, from the lines of metrics.jsonl.
std::vector<Chart> history_charts(const std::string& metrics);
/// Learned activation functions with their standard deviation and virtual observations: one chart for each of the first
/// units of each layer. `functions` are the outputs of a network's `functions` at `activations`.
std::vector<Chart> function_charts(const std::map<std::string, RowValues>& functions,
                                   const std::vector<double>& activations);

/// The page; `run` has been trained to its end, and `command` is what was typed.
std::string report_html(const TrainConfig& config, const FinalReport& report, TrainingRun& run,
                        const std::string& metrics, const std::string& command);

}  // namespace moxie
