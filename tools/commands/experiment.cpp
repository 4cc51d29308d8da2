// moxie experiment: repeats the experiments of the paper and writes their tables.
#include "tools/commands/experiment.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "runtime/atomic_file.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/train_stop.h"
#include "tools/data/file.h"

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

/// The settings that all measurements in a folder share. Throws DataError if those there were made with others.
void check_settings(const fs::path& file, const std::string& experiment, const std::vector<std::string>& settings) {
  const std::string wanted = Json({{"experiment", experiment}, {"settings", settings}}).dump() + "\n";
  if (!fs::exists(file)) return atomic_write(file, wanted);
  if (const std::string there = read_file(file); there != wanted) {
    throw DataError(fmt::format("{}: the measurements there are of {}, not of {}; choose another --out", file.string(),
                                there.substr(0, there.size() - 1), wanted.substr(0, wanted.size() - 1)));
  }
}

/// The result of a cell: from its file, or measured and written there. Nothing if it was stopped.
std::optional<Json> result_of(const Experiment& experiment, const Cell& cell, const Workplace& workplace,
                              const fs::path& file) {
  if (fs::exists(file)) {
    Json known = Json::parse(read_file(file), nullptr, false);
    if (known.is_object() && known.contains("row")) return known;
  }
  const auto start = std::chrono::steady_clock::now();
  const std::optional<Json> measured = experiment.measure(cell, workplace);
  if (!measured) return std::nullopt;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Json result = {{"row", cell.row}, {"column", cell.column}, {"replicate", cell.replicate}, {"seconds", seconds}};
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
      {"settings", choice.options.settings},
      {"published", experiment.source},
      {"table", Json::array()},
      {"measurements", measurements}};
  for (const TableEntry& entry : table) {
    Json row = {{"row", entry.row},   {"column", entry.column},       {"metric", entry.metric},
                {"mean", entry.mean}, {"deviation", entry.deviation}, {"count", entry.count}};
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
    if (result.contains(metric)) text += fmt::format("  {} {:.4g}", metric, result[metric].get<double>());
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
  check_settings(out / "settings.json", choice.name, choice.options.settings);
  const std::shared_ptr<Device> device = open_chosen_device(choice.device);
  const StopSignals signals;
  std::vector<Json> measurements;
  for (const Cell& cell : cells) {
    const Workplace workplace{choice.options, device, out / "runs" / cell.key(), StopSignals::received};
    const std::optional<Json> result =
        result_of(experiment, cell, workplace, out / "measurements" / (cell.key() + ".json"));
    if (!result || StopSignals::received()) {
      fmt::print("stopped   after {} of {} measurements; the same command goes on with it\n", measurements.size(),
                 cells.size());
      return 0;
    }
    measurements.push_back(*result);
    if (choice.json) continue;
    fmt::print("{:>4}/{}  {}, {}, {}{}\n", measurements.size(), cells.size(), cell.row, cell.column, cell.replicate,
               in_short(experiment, *result));
    std::fflush(stdout);
  }
  write_tables(experiment, choice, measurements);
  return 0;
}

std::string experiment_list() {
  std::string text = "which one:";
  for (const Experiment& experiment : experiments())
    text += fmt::format("\n  {}: {}", experiment.name, experiment.summary);
  return text;
}

}  // namespace

Work add_experiment(CLI::App& app) {
  auto choice = std::make_shared<ExperimentChoice>();
  choice->device.threads = 1;
  ExperimentOptions& options = choice->options;
  app.add_option("experiment", choice->name, experiment_list())->required();
  app.add_option("--out", options.out,
                 "where measurements and tables go; experiments/NAME if not given. What is there "
                 "already is not measured again");
  app.add_option("--data-dir", options.data_dir, "where the data sets lie")->capture_default_str();
  app.add_option("--rows", options.rows, "methods, all if not given, as in --rows 'GPN means,tanh'")->delimiter(',');
  app.add_option("--columns", options.columns, "data sets, all of the experiment if not given")->delimiter(',');
  app.add_option("--replicates", options.replicates, "seeds or splits");
  app.add_option("--set", options.settings, "an option of `moxie train` for every run, as in --set epochs=100")
      ->allow_extra_args(false);
  app.add_flag("--json", choice->json, "print the table and everything behind it as JSON");
  add_device_option(app, choice->device);
  add_threads_option(app, choice->device);
  return [choice] { return run_experiment(*choice); };
}

}  // namespace moxie
