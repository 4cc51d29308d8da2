#pragma once
// Experiments: many measurements, each kept in a file of its own, and a table of them beside published figures.
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "learn/train_config.h"
#include "runtime/device.h"

namespace moxie {

struct ExperimentOptions {
  std::filesystem::path out, data_dir = "data";
  std::vector<std::string> rows, columns;  // all of the experiment if empty
  std::size_t replicates = 0;              // 0: as many as the experiment wants
  std::vector<std::string> settings;       // name=value: options of `moxie train`
};

/// One measurement: a method (row) on a data set (column), with a seed or a split.
struct Cell {
  std::string row, column;
  std::size_t replicate = 0;

  /// A name for files.
  std::string key() const;
};

/// What a measurement may use.
struct Workplace {
  const ExperimentOptions& options;
  std::shared_ptr<Device> device;
  std::filesystem::path folder;  // for this cell alone: left there when stopped, removed when done
  std::function<bool()> stop;
};

/// A figure that was published, with its standard deviation or error where that is known.
struct PublishedFigure {
  std::string_view row, column, metric;
  double value = 0;
  std::optional<double> deviation = {};
};

struct Experiment {
  std::string_view name, summary;
  std::vector<std::string> rows, columns;
  std::size_t replicates = 1;
  std::vector<std::string> metrics;  // members of a measurement that the table shows
  std::span<const PublishedFigure> published;
  std::string_view source;  // of the published figures
  /// Empty if it was stopped.
  std::optional<nlohmann::ordered_json> (*measure)(const Cell& cell, const Workplace& workplace);
};

/// table3, table4, regression, likelihoods, clt, seeds, probact, sp-gru.
const std::vector<Experiment>& experiments();
/// Throws UsageError, with the known ones.
const Experiment& find_experiment(const std::string& name);

class TrainingRun;
/// Trains to the end, taking up what an earlier call left in the folder. Gives the last line of metrics.jsonl, to which
/// `add` may add of the best parameters; nothing if it was stopped.
std::optional<nlohmann::ordered_json> train_cell(
    const TrainConfig& config, const Workplace& workplace,
    const std::function<void(TrainingRun& run, const Dataset& data, nlohmann::ordered_json& result)>& add = {});

/// `config` with the model and the settings of method `row`, and then with `settings`.
TrainConfig with_method(TrainConfig config, const std::string& row, const std::vector<std::string>& settings);

/// The cells that the options ask for. Throws UsageError for unknown rows.
std::vector<Cell> cells_of(const Experiment& experiment, const ExperimentOptions& options);

/// A metric of a measurement; NaN, which JSON writes as null, if it does not exist.
double metric_of(const nlohmann::ordered_json& measured, const std::string& name);

/// Mean and standard deviation of a metric over the replicates of a row and column.
struct TableEntry {
  std::string row, column, metric;
  std::string settings = {};  // with which all of them were measured
  double mean = 0, deviation = 0;
  std::size_t count = 0;
  const PublishedFigure* published = nullptr;
};
std::vector<TableEntry> table_of(const Experiment& experiment, const std::vector<nlohmann::ordered_json>& measurements);
/// One table for each metric: rows and columns of the experiment, ours and (in brackets) the published figures.
std::string markdown(const Experiment& experiment, const std::vector<TableEntry>& table);

// What the table of experiments refers to.
std::optional<nlohmann::ordered_json> measure_classification(const Cell& cell, const Workplace& workplace);
std::optional<nlohmann::ordered_json> measure_regression(const Cell& cell, const Workplace& workplace);
/// Trains with each of a few sizes of batches; the lowest negative log likelihood of the validation rows chooses one.
/// Members default_* of the result are scores with the size that `moxie train` has.
std::optional<nlohmann::ordered_json> measure_likelihood(const Cell& cell, const Workplace& workplace);
std::optional<nlohmann::ordered_json> measure_robustness(const Cell& cell, const Workplace& workplace);
std::optional<nlohmann::ordered_json> measure_probact(const Cell& cell, const Workplace& workplace);
std::optional<nlohmann::ordered_json> measure_frames(const Cell& cell, const Workplace& workplace);
std::optional<nlohmann::ordered_json> measure_iteration(const Cell& cell, const Workplace& workplace);
std::optional<nlohmann::ordered_json> measure_central_limit(const Cell& cell, const Workplace& workplace);

}  // namespace moxie
