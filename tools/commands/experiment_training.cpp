// Measurements that train models: table 3, UCI regression, and many seeds.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>

#include "data/file.h"
#include "learn/run_folder.h"
#include "learn/training_run.h"
#include "runtime/atomic_file.h"
#include "tools/commands/command.h"
#include "tools/commands/experiment.h"
#include "tools/commands/train_report.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The run that a cell stands for, with `settings` where the options say nothing else.
TrainConfig config_of(const Cell& cell, const Workplace& workplace, TrainConfig config = {},
                      std::vector<std::string> settings = {}) {
  config.data = cell.column;
  config.data_dir = workplace.options.data_dir.string();
  settings.insert(settings.end(), workplace.options.settings.begin(), workplace.options.settings.end());
  config = with_method(config, cell.row, settings);
  check(config);
  return config;
}

/// The measurement of a cell with one candidate for its settings, from a file beside the others if it is there. A run
/// that failed has no scores. Nothing if it was stopped.
std::optional<Json> measure_candidate(const Cell& cell, const Workplace& workplace, const std::string& setting) {
  const Workplace part{workplace.options, workplace.device, workplace.folder / setting, workplace.stop};
  const fs::path file = workplace.folder / (setting + ".json");
  if (fs::exists(file)) return Json::parse(read_whole_file(file));
  TrainConfig config = config_of(cell, workplace, {}, {"recalibrate=true", setting});
  config.split = cell.replicate;
  config.seed = cell.replicate + 1;  // some initial values make training fail where others do not
  std::optional<Json> result;
  try {
    result = train_cell(config, part);
  } catch (const DeviceError& error) {
    result = Json{{"reason", error.what()}};
  }
  if (!result) return std::nullopt;
  (*result)["chosen"] = setting;
  atomic_write(file, result->dump() + "\n");
  return result;
}

}  // namespace

std::optional<Json> train_cell(const TrainConfig& config, const Workplace& workplace,
                               const std::function<void(TrainingRun&, const Dataset&, Json&)>& add) {
  const Dataset data = load_dataset(config.data, load_options(config));
  TrainingRun run(config, data, workplace.device);
  const bool begun = fs::exists(workplace.folder / "checkpoint.safetensors") &&
                     to_json(RunFolder::open(workplace.folder).read_config()) == to_json(config);
  if (!begun) fs::remove_all(workplace.folder);
  const RunFolder folder =
      begun ? RunFolder::open(workplace.folder) : RunFolder::create(workplace.folder, config, "moxie experiment");
  if (begun) run.resume(folder.read_checkpoint());
  run.train({.stop = workplace.stop, .save = folder.saver()});
  if (run.state().finished.empty()) return std::nullopt;
  Json result = Json::parse(final_metrics_line(run.evaluate_best(), run.state()));
  result["jitter"] = Json::object();
  for (const Jitter& jitter : run.network().jitter) result["jitter"][jitter.matrix] = jitter.amount;
  if (add) add(run, data, result);
  return result;
}

std::optional<Json> measure_classification(const Cell& cell, const Workplace& workplace) {
  TrainConfig config = config_of(cell, workplace);
  config.seed = cell.replicate + 1;
  return train_cell(config, workplace);
}

std::optional<Json> measure_regression(const Cell& cell, const Workplace& workplace) {
  TrainConfig usual;
  usual.layers = {cell.column == "protein-tertiary-structure" ? 100 : 50};  // as those of the published figures
  usual.batch = 32;
  // Of 0, 1e-4 and 1e-3 the best for the validation rows of two splits of yacht, energy and kin8nm.
  usual.weight_decay = 1e-4;
  TrainConfig config = config_of(cell, workplace, usual);
  config.split = cell.replicate;
  std::optional<Json> result = train_cell(config, workplace);
  if (result) (*result)["log_likelihood"] = -metric_of(*result, "nll");
  return result;
}

std::optional<Json> measure_likelihood(const Cell& cell, const Workplace& workplace) {
  // The default of `moxie train`, and one that takes more steps on small data sets.
  static constexpr auto kCandidates = std::to_array<const char*>({"batch=256", "batch=32"});
  std::optional<Json> best;
  Json candidates = Json::array();
  for (const char* candidate : kCandidates) {
    const std::optional<Json> measured = measure_candidate(cell, workplace, candidate);
    if (!measured) return std::nullopt;
    candidates.push_back(*measured);
    const double nll = metric_of(*measured, "validation_nll");
    const bool is_better = std::isfinite(nll) && !(nll >= metric_of(best.value_or(Json()), "validation_nll"));
    if (!best || is_better) best = measured;
  }
  for (const char* score : {"validation_nll", "nll", "rmse"})
    (*best)[fmt::format("default_{}", score)] = metric_of(candidates.front(), score);
  (*best)["candidates"] = candidates;
  return best;
}

std::optional<Json> measure_robustness(const Cell& cell, const Workplace& workplace) {
  TrainConfig config = config_of(cell, workplace);
  config.seed = cell.replicate + 1;
  try {
    std::optional<Json> result = train_cell(config, workplace);
    if (result) (*result)["failed"] = 0;
    return result;
  } catch (const DeviceError& error) {
    return Json{{"failed", 1}, {"skipped_steps", 0}, {"reason", error.what()}};
  }
}

}  // namespace moxie
