// moxie experiment: repeats the experiments of the paper and writes their tables.
#include "tools/commands/experiment.h"
#include "tools/commands/train_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <tuple>

#include "data/file.h"
#include "learn/scores.h"
#include "runtime/atomic_file.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/train_stop.h"

namespace moxie {

/// Of the sources, looked up when the program was built.
extern const char* const kCommit;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ExperimentChoice {
  std::string name;
  ExperimentOptions options;
  DeviceChoice device;
  bool json = false;  // print the table's JSON and nothing else
};

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string today() {
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                     static_cast<unsigned>(day.day()));
}

/// The measurements in a folder, in the order of the experiment's columns, rows and replicates.
std::vector<Json> read_measurements(const Experiment& experiment, const fs::path& folder) {
  std::vector<Json> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    Json known = Json::parse(read_whole_file(entry.path()), nullptr, false);
    if (known.is_object() && known.contains("row")) all.push_back(std::move(known));
  }
  std::ranges::sort(all, {}, [&](const Json& measured) {
    const std::string column = measured.at("column"), row = measured.at("row");
    return std::tuple(std::ranges::find(experiment.columns, column) - experiment.columns.begin(), column,
                      std::ranges::find(experiment.rows, row) - experiment.rows.begin(),
                      measured.at("replicate").get<std::size_t>());
  });
  return all;
}

/// Throws DataError if the folder holds measurements that those of `cells` cannot stand beside: of another experiment,
/// or of the same row and column with other settings.
void check_measurements(const ExperimentChoice& choice, const std::vector<Cell>& cells,
                        const std::vector<Json>& measurements) {
  for (const Json& measured : measurements) {
    const bool same_entry = std::ranges::any_of(cells, [&](const Cell& cell) {
      return Json(cell.row) == measured.at("row") && Json(cell.column) == measured.at("column");
    });
    const Json experiment = measured.value("experiment", Json()), settings = measured.value("settings", Json());
    if (experiment == choice.name && (!same_entry || settings == Json(choice.options.settings))) continue;
    throw DataError(fmt::format(
        "{}: '{}' on {} was measured there for experiment {} with settings {}, not {} with {}; "
        "choose another --out",
        choice.options.out.string(), measured.at("row").get<std::string>(), measured.at("column").get<std::string>(),
        experiment.dump(), settings.dump(), Json(choice.name).dump(), Json(choice.options.settings).dump()));
  }
}

/// The result of a cell: from its file, or measured and written there. Nothing if it was stopped.
std::optional<Json> result_of(const Experiment& experiment, const Cell& cell, const Workplace& workplace,
                              const fs::path& file) {
  if (fs::exists(file)) {
    Json known = Json::parse(read_whole_file(file), nullptr, false);
    if (known.is_object() && known.contains("row")) return known;
  }
  const auto start = std::chrono::steady_clock::now();
  const std::optional<Json> measured = experiment.measure(cell, workplace);
  if (!measured) return std::nullopt;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Json result = {{"experiment", experiment.name},
                 {"row", cell.row},
                 {"column", cell.column},
                 {"replicate", cell.replicate},
                 {"settings", workplace.options.settings},
                 {"commit", kCommit},
                 {"seconds", seconds}};
  result.update(*measured);
  atomic_write(file, result.dump() + "\n");
  fs::remove_all(workplace.folder);
  return result;
}

void write_tables(const Experiment& experiment, const ExperimentChoice& choice, const std::vector<Json>& measurements) {
  const std::vector<TableEntry> table = table_of(experiment, measurements);
  Json json = {
      {"experiment", experiment.name},
      {"summary", experiment.summary},
      {"machine", {{"processor", processor()}, {"threads", choice.device.threads}, {"device", choice.device.name}}},
      {"version", MOXIE_VERSION},
      {"commit", kCommit},
      {"date", today()},
      {"published", experiment.source},
      {"table", Json::array()},
      {"measurements", measurements}};
  for (const TableEntry& entry : table) {
    Json row = {{"row", entry.row},   {"column", entry.column},       {"metric", entry.metric},
                {"mean", entry.mean}, {"deviation", entry.deviation}, {"count", entry.count}};
    if (!entry.settings.empty()) row["settings"] = entry.settings;
    if (entry.published) row["published"] = entry.published->value;
    if (entry.published && entry.published->deviation) row["published_deviation"] = *entry.published->deviation;
    json["table"].push_back(row);
  }
  const std::string text = markdown(experiment, table);
  atomic_write(choice.options.out / fmt::format("{}.json", experiment.name), json.dump(1) + "\n");
  atomic_write(choice.options.out / fmt::format("{}.md", experiment.name), text);
  fmt::print("{}", choice.json ? json.dump(1) + "\n" : text);
}

std::string in_short(const Experiment& experiment, const Json& result) {
  std::string text;
  for (const std::string& metric : experiment.metrics) {
    if (result.contains(metric)) text += fmt::format("  {} {}", metric, score_text(metric_of(result, metric)));
  }
  return text;
}

int run_experiment(ExperimentChoice choice) {
  const Experiment& experiment = find_experiment(choice.name);
  if (choice.options.out.empty()) choice.options.out = fs::path("experiments") / std::string(experiment.name);
  const fs::path out = choice.options.out;
  const std::vector<Cell> cells = cells_of(experiment, choice.options);
  with_settings(TrainConfig(), choice.options.settings);
  fs::create_directories(out / "measurements");
  check_measurements(choice, cells, read_measurements(experiment, out / "measurements"));
  const std::shared_ptr<Device> device = open_chosen_device(choice.device);
  const StopSignals signals;
  std::size_t done = 0;
  for (const Cell& cell : cells) {
    const Workplace workplace{choice.options, device, out / "runs" / cell.key(), StopSignals::received};
    const std::optional<Json> result =
        result_of(experiment, cell, workplace, out / "measurements" / (cell.key() + ".json"));
    if (!result || StopSignals::received()) {
      fmt::print("stopped   after {} of {} measurements; the same command goes on with it\n", done, cells.size());
      return 0;
    }
    ++done;
    if (choice.json) continue;
    fmt::print("{:>4}/{}  {}, {}, {}{}\n", done, cells.size(), cell.row, cell.column, cell.replicate,
               in_short(experiment, *result));
    std::fflush(stdout);
  }
  write_tables(experiment, choice, read_measurements(experiment, out / "measurements"));
  return 0;
}

std::string experiment_list() {
  std::string text = "which one:";
  for (const Experiment& experiment : experiments())
    text += fmt::format("\n  {}: {}", experiment.name, experiment.summary);
  return text;
}

}  // namespace

Work add_experiment(OptionParser& parser) {
  auto choice = std::make_shared<ExperimentChoice>();
  choice->device.threads = 1;
  ExperimentOptions& options = choice->options;
  parser.add_option("experiment", choice->name, experiment_list()).required();
  parser.add_option("--out", options.out,
                    "where measurements and tables go; experiments/NAME if not given. What is there "
                    "already is not measured again, and is in the tables as well");
  parser.add_option("--data-dir", options.data_dir, "where the data sets lie").show_default();
  parser.add_option("--rows", options.rows, "methods, all if not given, as in --rows 'GPN means,tanh'").delimiter(',');
  parser.add_option("--columns", options.columns, "data sets, all of the experiment if not given").delimiter(',');
  parser.add_option("--replicates", options.replicates, "seeds or splits");
  parser.add_option("--set", options.settings, "an option of `moxie train` for every run, as in --set epochs=100")
      .allow_extra_args(false);
  parser.add_flag("--json", choice->json, "print the table and everything behind it as JSON");
  add_device_option(parser, choice->device);
  add_threads_option(parser, choice->device);
  return [choice] { return run_experiment(*choice); };
}

}  // namespace moxie
