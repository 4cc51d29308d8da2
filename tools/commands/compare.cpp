// moxie compare: settings and scores of runs side by side.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "learn/run_folder.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;

struct CompareOptions {
  std::vector<std::string> runs;
  bool json = false;
};

/// A run as tables show it.
struct ComparedRun {
  Json settings, scores;
};

ComparedRun read_run(const std::string& path) {
  const RunFolder folder = RunFolder::open(path);
  ComparedRun run{Json::object(), Json::object()};
  run.settings = Json::parse(to_json(folder.read_config()));
  run.settings.erase("formula");
  const std::string line = folder.final_metrics();
  const Json metrics = line.empty() ? Json::object() : Json::parse(line);
  for (const auto& [name, value] : metrics.items())
    if (value.is_number() && (name.starts_with("test_") || name == "best_epoch" || name == "elapsed_s"))
      run.scores[name] = value;
  return run;
}

std::string text_of(const Json& object, const std::string& name) {
  if (!object.contains(name)) return "-";
  const Json& value = object[name];
  if (value.is_number_float()) return fmt::format("{:.5g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The names that any of the objects has, in the order of the first that has them.
std::vector<std::string> names_of(const std::vector<ComparedRun>& runs, Json ComparedRun::* part) {
  std::vector<std::string> names;
  for (const ComparedRun& run : runs)
    for (const auto& [name, value] : (run.*part).items())
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

std::vector<std::string> row_of(const std::vector<ComparedRun>& runs, Json ComparedRun::* part,
                                const std::string& name) {
  std::vector<std::string> row = {name};
  for (const ComparedRun& run : runs) row.push_back(text_of(run.*part, name));
  return row;
}

bool differs(const std::vector<std::string>& row) {
  return std::ranges::any_of(row.begin() + 2, row.end(), [&](const std::string& cell) { return cell != row[1]; });
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  for (const auto& row : rows) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t k = 1; k < row.size(); ++k) line += fmt::format("  {:>{}}", row[k], widths[k]);
    fmt::print("{}\n", line);
  }
}

/// The settings that differ, then the scores of the test samples.
int compare(const CompareOptions& options) {
  std::vector<ComparedRun> runs;
  for (const std::string& path : options.runs) runs.push_back(read_run(path));
  if (options.json) {
    Json result = Json::array();
    for (std::size_t k = 0; k < runs.size(); ++k)
      result.push_back({{"run", options.runs[k]}, {"settings", runs[k].settings}, {"scores", runs[k].scores}});
    fmt::print("{}\n", result.dump(2));
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{""}};
  rows[0].insert(rows[0].end(), options.runs.begin(), options.runs.end());
  for (const std::string& name : names_of(runs, &ComparedRun::settings))
    if (auto row = row_of(runs, &ComparedRun::settings, name); differs(row)) rows.push_back(std::move(row));
  for (const std::string& name : names_of(runs, &ComparedRun::scores))
    rows.push_back(row_of(runs, &ComparedRun::scores, name));
  print_table(rows);
  return 0;
}

}  // namespace

Work add_compare(OptionParser& parser) {
  auto options = std::make_shared<CompareOptions>();
  parser.add_option("runs", options->runs, "folders of runs of `moxie train`").required();
  parser.add_flag("--json", options->json, "all settings and scores as JSON");
  parser.set_footer("Examples:\n  moxie compare runs/gpn-table-1 runs/mlp-table-1\n");
  return [options] { return compare(*options); };
}

}  // namespace moxie
