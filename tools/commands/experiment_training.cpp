// Measurements that train models: table 3, UCI regression, and many seeds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "tools/commands/command.h"
#include "tools/commands/experiment.h"
#include "tools/commands/train_report.h"
#include "tools/commands/train_run.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// What a row of a table means, as options of `moxie train`.
struct Method {
  std::string_view row;
  std::string_view model;
  std::vector<std::string> settings;
};

const std::array kMethods = std::to_array<Method>({
    {"tanh", "mlp", {}},
    {"tanh fast dropout", "mlp", {"dropout=fast"}},
    {"GPN means", "gpn", {"propagate=mean"}},
    {"GPN variances", "gpn", {}},
    {"GPN variances shared", "gpn", {"sharing=layer"}},
    {"GPN variances identity", "gpn", {"init=identity"}},
    {"GPN covariances", "gpn", {"propagate=covariance", "covariance=equispaced"}},
    {"GPN variational", "gpn", {"inference=vb"}},
});

TrainConfig config_of(const Cell& cell, const Workplace& workplace) {
  TrainConfig config;
  config.data = cell.column;
  config.data_dir = workplace.options.data_dir.string();
  const auto method = std::ranges::find(kMethods, cell.row, &Method::row);
  config.model = method->model;
  config = with_settings(with_settings(config, method->settings), workplace.options.settings);
  check(config);
  return config;
}

/// Trains to the end, taking up what an earlier call left in the folder. Gives the last line of metrics.jsonl; nothing
/// if it was stopped.
std::optional<Json> train(const TrainConfig& config, const Workplace& workplace) {
  const Dataset data = load_dataset(config.data, load_options(config));
  TrainingRun run(config, data, workplace.device);
  const bool begun = fs::exists(workplace.folder / "checkpoint.safetensors");
  if (!begun) fs::remove_all(workplace.folder);
  const RunFolder folder =
      begun ? RunFolder::open(workplace.folder) : RunFolder::create(workplace.folder, config, "moxie experiment");
  if (begun) run.resume(folder.read_checkpoint());
  run.train(folder, workplace.stop, [](const EpochReport&) {});
  if (run.state().finished.empty()) return std::nullopt;
  Json result = Json::parse(final_metrics_line(run.evaluate_best(), run.state()));
  result["jitter"] = Json::object();
  for (const Jitter& jitter : run.network().jitter) result["jitter"][jitter.matrix] = jitter.amount;
  return result;
}

}  // namespace

std::optional<Json> measure_classification(const Cell& cell, const Workplace& workplace) {
  TrainConfig config = config_of(cell, workplace);
  config.seed = cell.replicate + 1;
  return train(config, workplace);
}

std::optional<Json> measure_regression(const Cell& cell, const Workplace& workplace) {
  TrainConfig config = config_of(cell, workplace);
  config.split = cell.replicate;
  if (config.layers.empty()) config.layers = {cell.column == "protein-tertiary-structure" ? 100 : 50};
  std::optional<Json> result = train(config, workplace);
  if (result) (*result)["log_likelihood"] = -(*result)["nll"].get<double>();
  return result;
}

std::optional<Json> measure_robustness(const Cell& cell, const Workplace& workplace) {
  TrainConfig config = config_of(cell, workplace);
  config.seed = cell.replicate + 1;
  try {
    std::optional<Json> result = train(config, workplace);
    if (result) (*result)["failed"] = 0;
    return result;
  } catch (const DeviceError& error) {
    return Json{{"failed", 1}, {"skipped_steps", 0}, {"reason", error.what()}};
  }
}

}  // namespace moxie
