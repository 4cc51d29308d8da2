// moxie train: trains a model and leaves a run folder behind.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/file.h"
#include "learn/cross_validation.h"
#include "learn/model_text.h"
#include "learn/run_folder.h"
#include "learn/train_config.h"
#include "learn/training_run.h"
#include "runtime/atomic_file.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/program_choice.h"
#include "tools/commands/report.h"
#include "tools/commands/train_ranks.h"
#include "tools/commands/train_report.h"
#include "tools/commands/train_settings.h"
#include "tools/commands/train_stop.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

struct TrainOptions {
  TrainConfig config;
  DeviceChoice device;
  RankChoice rank_choice;
  std::shared_ptr<Communicator> ranks = self_communicator();
  std::string out, resume, config_file;
  std::vector<std::string> settings;  // name=value, of --set
  std::vector<std::string> folders;   // of files that the model includes
  bool dry_run = false;
  std::map<std::string, std::pair<const char*, Option>> options;  // by name: group and option
};

/// What may differ when a run goes on: everything else would make it another run.
constexpr std::array<std::string_view, 3> kResumable = {"epochs", "max-time", "data-dir"};

/// CLI11 would take -1 for the largest number that there is. What is wrong with the text, or nothing.
std::string without_sign(const std::string& text) {
  return text.starts_with('-') ? fmt::format("{} is not a number without sign", text) : "";
}

void add_option(OptionParser& parser, TrainOptions& options, const char* group, const std::string& name, auto& value,
                const char* help) {
  const auto add = [&] {
    if constexpr (std::is_same_v<decltype(value), bool&>) {
      return parser.add_flag(fmt::format("--{0},!--no-{0}", name), value, help);
    } else {
      return parser.add_option("--" + name, value, help).show_default();
    }
  };
  const Option option = add().group(group);
  if (std::is_same_v<decltype(value), std::vector<std::int64_t>&> ||
      std::is_same_v<decltype(value), std::vector<double>&> ||
      std::is_same_v<decltype(value), std::vector<std::string>&>)
    option.comma_separated();
  if (std::is_unsigned_v<std::remove_reference_t<decltype(value)>>) option.check(without_sign);
  options.options.emplace(name, std::pair{group, option});
}

/// What the text of a user's own model says of itself.
constexpr std::array<std::string_view, 3> kSaidByText = {"layers", "activation", "sigma"};

/// The heading of the options that only this model has.
std::string own_group(const std::string& model) {
  return model.ends_with(".mox") ? option_group::kOwn : "Model: " + model;
}

/// Whether an option was given by its name or by --set.
bool is_chosen(const TrainOptions& options, const std::string& name) {
  const auto names_it = [&](const std::string& setting) { return setting.starts_with(name + "="); };
  return options.options.at(name).second.given() || std::ranges::any_of(options.settings, names_it);
}

/// Throws UsageError for options of another model.
void check_groups(const TrainOptions& options) {
  const bool is_own = is_own_model(options.config);
  const std::string own = own_group(options.config.model);
  for (const auto& [name, option] : options.options) {
    const std::string_view group = option.first;
    const bool is_others = group.starts_with("Model: ") && group != own;
    const bool is_said = is_own && std::ranges::find(kSaidByText, name) != kSaidByText.end();
    if ((is_others || is_said) && is_chosen(options, name))
      throw UsageError(fmt::format("--{} is not for the model {}", name, options.config.model));
  }
}

/// `base` with the options that were given.
TrainConfig with_given(const TrainOptions& options, const TrainConfig& base, const std::string& file) {
  auto json = nlohmann::json::parse(to_json(base));
  const auto now = nlohmann::json::parse(to_json(options.config));
  for (const auto& [name, option] : options.options)
    if (option.second.given()) json[name] = now[name];
  return config_from_json(json.dump(), file);
}

/// What --config names, such as the config.json of a run. Settings of --set go before it, and options on the command
/// line before these.
TrainConfig config_of_file(const TrainOptions& options, bool model_given) {
  const std::string& file = options.config_file;
  const TrainConfig base = file.empty() ? TrainConfig() : config_from_json(read_whole_file(file), file);
  TrainConfig config = with_given(options, with_settings(base, options.settings), file);
  if (model_given) config.model = options.config.model;
  if (!is_own_model(config)) config.formula.clear();
  return config;
}

/// The configuration of the run in the folder, with what was given anew.
TrainConfig resumed_config(const TrainOptions& options, const TrainConfig& config, const fs::path& folder) {
  for (const auto& [name, option] : options.options) {
    if (option.second.given() && std::ranges::find(kResumable, name) == kResumable.end())
      throw UsageError(
          fmt::format("--{} cannot change when a run is resumed; only --{} can", name, fmt::join(kResumable, ", --")));
  }
  return with_given(options, config, folder.string());
}

/// What was typed, for the run folder.
std::string command_line(const TrainOptions& options, const TrainConfig& config) {
  std::string text = "moxie train";
  text += options.resume.empty() ? " " + config.model : " --resume " + options.resume;
  if (!options.config_file.empty()) text += " --config " + options.config_file;
  for (const std::string& setting : options.settings) text += " --set " + setting;
  for (const auto& [name, option] : options.options) {
    if (option.second.given()) text += fmt::format(" --{} {}", name, fmt::join(option.second.texts(), ","));
  }
  if (config.fold > 0 && !options.options.at("fold").second.given() && options.resume.empty())
    text += fmt::format(" --fold {}", config.fold);
  return text;
}

fs::path default_folder(const TrainConfig& config) {
  const std::string data = fs::path(config.data.substr(config.data.find(':') + 1)).stem().string();
  return fs::path("runs") / fmt::format("{}-{}-{}", fs::path(config.model).stem().string(), data, config.seed);
}

/// The folder, or the first of FOLDER-2, FOLDER-3, ... that there is not.
fs::path first_free(const fs::path& folder) {
  fs::path path = folder;
  std::error_code error;
  for (int number = 2; fs::exists(path, error); ++number) path = fmt::format("{}-{}", folder.string(), number);
  return path;
}

/// predict opens no file that only the model names.
std::string predict_command(const TrainConfig& config, const Dataset& data, const std::string& path) {
  const bool needs_folder = reads_data_folder(data.name) && config.data_dir != TrainConfig().data_dir;
  const std::string kind = data.name.substr(0, data.name.find(':') + 1);
  return fmt::format("moxie predict {} --data {}{}", path,
                     config.test_file.empty() ? data.name : kind + config.test_file,
                     needs_folder ? " --data-dir " + config.data_dir : "");
}

bool is_first(const TrainOptions& options) { return options.ranks->rank() == 0; }

/// What the run has to show: its last report, and where it is.
void finish(const TrainConfig& config, const Dataset& data, TrainingRun& run, const FinalReport& report,
            const RunFolder& folder) {
  const std::string path = folder.path().string();
  folder.append_metrics(final_metrics_line(report, run.state()));
  folder.write_report(report_html(config, report, run, folder.read_metrics(), folder.read_command()));
  fmt::print("{}\nrun       {} (report.html there; {})\n", describe_end(report, run.state(), data), path,
             predict_command(config, data, path));
}

/// Trains until the end, or until a signal. Whether the end was reached. Only rank 0 has a folder.
bool run_to_end(const TrainConfig& config, const Dataset& data, TrainingRun& run,
                const std::optional<RunFolder>& folder) {
  const StopSignals signals;
  {
    Progress progress(config.epochs, config.max_time, run.communicator().size() == 1);
    const auto report = [&](const EpochReport& epoch) {
      if (folder) folder->append_metrics(metrics_line(epoch));
      progress.show(epoch);
    };
    run.train({StopSignals::received, report, folder ? folder->saver() : nullptr});
  }
  if (run.state().finished.empty()) {
    if (folder)
      fmt::print("stopped   at step {}; go on with: moxie train --resume {}\n", run.state().position.step,
                 folder->path().string());
    return false;
  }
  const FinalReport report = run.evaluate_best();
  fmt::print("{}", describe_ranks(run));
  if (folder) finish(config, data, run, report, *folder);
  return true;
}

TrainingRun prepare(const TrainConfig& config, const TrainOptions& options, const Dataset& data) {
  check_units(config, data.encoding);
  const auto start = std::chrono::steady_clock::now();
  TrainingRun run(config, data, open_chosen_device(options.device), options.ranks);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}\n{}\n{}", describe_data(data), describe_plan(run.plan(), run.network().parameters, seconds),
             describe_jitter(run.network().jitter));
  std::fflush(stdout);
  return run;
}

/// Messages about a model of the user's own show the place in its text.
TrainingRun prepare_own(const TrainConfig& config, const ModelText& text, const TrainOptions& options,
                        const Dataset& data) {
  try {
    return prepare(config, options, data);
  } catch (const ModelError& error) {
    fail_in_text(error, text);
  }
}

/// A new run in the folder `path`. `text` is that of a model of the user's own.
bool start_run(const TrainOptions& options, const TrainConfig& config, const ModelText& text, const fs::path& path) {
  const Dataset data = load_dataset(config.data, load_options(config));
  require_same_start(*options.ranks, config, data);
  TrainingRun run = is_own_model(config) ? prepare_own(config, text, options, data) : prepare(config, options, data);
  if (options.dry_run) {
    fmt::print("run       {} would be made, and trained for at most {} epochs\n", path.string(), config.epochs);
    return true;
  }
  std::optional<RunFolder> folder;
  if (is_first(options)) folder = RunFolder::create(path, config, command_line(options, config));
  return run_to_end(config, data, run, folder);
}

/// Goes on with the run in a folder.
bool resume_run(const TrainOptions& options, const fs::path& path) {
  std::optional<RunFolder> folder = RunFolder::open(path);
  const TrainConfig config = resumed_config(options, folder->read_config(), path);
  check(config);
  const Checkpoint checkpoint = folder->read_checkpoint();
  const Dataset data = load_dataset(config.data, load_options(config));
  check_parameters(make_network(config, data.encoding), checkpoint.best, path.string());
  require_same_start(*options.ranks, config, data, checkpoint.tensors);
  TrainingRun run = prepare(config, options, data);
  run.resume(checkpoint);
  if (is_first(options)) {
    folder->rewind_metrics(checkpoint.state.position.step);
    folder->write_config(config, command_line(options, config));
  } else {
    folder.reset();
  }
  return run_to_end(config, data, run, folder);
}

/// Every fold has its run in a folder of its own: one that is finished stays as it is unless a limit changed, one that
/// was stopped goes on, and others start.
bool run_fold(const TrainOptions& options, const TrainConfig& config, const ModelText& text, const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return start_run(options, config, text, path);
  const bool has_new_limits = std::ranges::any_of(
      kResumable, [&](std::string_view name) { return options.options.at(std::string(name)).second.given(); });
  if (!has_new_limits && !RunFolder::open(path).final_metrics().empty()) return true;
  return resume_run(options, path);
}

/// The runs of all folds, and what their scores say together.
void run_folds(const TrainOptions& options, const TrainConfig& config, const ModelText& text, const fs::path& path) {
  std::vector<std::string> metrics;
  for (std::size_t fold = 1; fold <= config.folds; ++fold) {
    TrainConfig of_fold = config;
    of_fold.fold = fold;
    const fs::path folder = fold_folder(path, fold);
    fmt::print("\nfold      {} of {}\n", fold, config.folds);
    if (!run_fold(options, of_fold, text, folder)) {
      fmt::print("stopped   in fold {}; go on with all folds: moxie train --resume {}\n", fold, path.string());
      return;
    }
    metrics.push_back(RunFolder::open(folder).final_metrics());
  }
  const std::vector<FoldScore> scores = fold_scores(metrics);
  atomic_write(path / "folds.json", folds_json(scores, config.folds));
  fmt::print("\n{}folds     {} (folds.json there; the runs in fold-1 to fold-{})\n",
             describe_scores(scores, config.folds), path.string(), config.folds);
}

/// Which rows each fold has, and what its step is compiled to.
void describe_folds(const TrainOptions& options, const TrainConfig& config, const ModelText& text,
                    const fs::path& path) {
  TrainConfig of_fold = config;
  for (std::size_t fold = config.folds; fold >= 1; --fold) {
    of_fold.fold = fold;
    if (fold > 1) fmt::print("{}\n", describe_data(load_dataset(config.data, load_options(of_fold))));
  }
  start_run(options, of_fold, text, fold_folder(path, 1));
  fmt::print(
      "folds     as many runs would be made in {}: fold-1 to fold-{}, and folds.json, the mean of their scores\n",
      path.string(), config.folds);
}

/// The folder of a new run, which all ranks take from rank 0.
fs::path folder_of(const TrainOptions& options, const TrainConfig& config) {
  fs::path path;
  if (is_first(options)) {
    path = options.out.empty() ? first_free(default_folder(config)) : fs::path(options.out);
    RunFolder::require_free(path);
  }
  return gather_texts(*options.ranks, path.string())[0];
}

int start(TrainOptions& options) {
  TrainConfig config = options.config;
  check_groups(options);
  ModelText text;
  if (is_own_model(config)) text = read_model(config, is_chosen(options, "precision"), options.folders);
  check(config);
  choose_for_ranks(config, options.device, *options.ranks);
  const fs::path path = folder_of(options, config);
  if (!is_cross_validation(config)) {
    start_run(options, config, text, path);
  } else if (options.dry_run) {
    describe_folds(options, config, text, path);
  } else {
    TrainConfig first = config;
    first.fold = 1;
    load_dataset(config.data, load_options(first));  // what is wrong with the data is said before a folder is made
    RunFolder::create(path, config, command_line(options, config));
    run_folds(options, config, text, path);
  }
  return 0;
}

int resume(TrainOptions& options) {
  if (!options.out.empty()) throw UsageError("--out and --resume do not go together: a run stays in its folder");
  if (!options.config_file.empty() || !options.settings.empty() || options.dry_run)
    throw UsageError("--resume goes on with the settings of the run: --config, --set and --dry-run are for new ones");
  if (const std::optional<TrainConfig> folds = cross_validation_in(options.resume)) {
    TrainConfig config = resumed_config(options, *folds, options.resume);
    check(config);
    choose_for_ranks(config, options.device, *options.ranks);
    run_folds(options, config, {config.model, config.formula}, options.resume);
  } else {
    TrainConfig config = RunFolder::open(options.resume).read_config();
    choose_for_ranks(config, options.device, *options.ranks);
    resume_run(options, options.resume);
  }
  return 0;
}

int train(TrainOptions& options, bool model_given) {
  options.settings = whole_settings(options.settings);
  if (!options.resume.empty()) return resume(options);
  if (options.config_file.empty() && !model_given)
    throw UsageError(
        "which model? `moxie train FILE.mox`, `moxie train gpn`, `moxie train mlp`, `moxie train probact` or `moxie "
        "train sp-gru`");
  if (!options.config_file.empty() || !options.settings.empty()) options.config = config_of_file(options, model_given);
  return start(options);
}

constexpr const char* kExamples =
    "Options of a model are shown by `moxie train gpn --help`, `moxie train FILE.mox --help`, ...\n\n"
    "Examples:\n"
    "  moxie train gpn --data csv:table.csv --target price --layers 30,15 --out run\n"
    "  moxie train my_model.mox --data csv:table.csv --target price --epochs 200\n"
    "  moxie train probact --network vgg-small --data cifar10 --data-dir ~/data\n"
    "  moxie train --config run/config.json --seed 2\n"
    "  moxie train --config run/config.json --set layers=30,15,rate=0.001\n"
    "  moxie train gpn --data csv:table.csv --folds 5\n"
    "  mpirun -n 4 moxie train gpn --data csv:table.csv --batch 2048\n"
    "  moxie train --resume run --epochs 4000\n";

/// Leaves the options of other models than the chosen one out of the help text.
void hide_others(const TrainOptions& options, const std::string& model) {
  for (const auto& [name, option] : options.options) {
    const std::string_view group = option.first;
    const bool is_others = group.starts_with("Model: ") && group != own_group(model);
    const bool is_frames = group == option_group::kFrames && model != "sp-gru";
    const bool is_texts = group == option_group::kText && model != "probact" && !model.ends_with(".mox");
    if (is_others || is_frames || is_texts) option.second.hide();
  }
}

}  // namespace

Work add_train(OptionParser& parser) {
  auto options = std::make_shared<TrainOptions>();
  TrainConfig& config = options->config;
  const Option model =
      parser.add_option("model", config.model,
                        "FILE.mox (a model of your own, see docs/models.md), gpn (Gaussian process neurons), probact "
                        "(noisy activations), sp-gru (recurrent, of means and variances) or mlp (fixed activations)");
  add_include_option(parser, options->folders);
  parser.add_option("--out", options->out,
                    "the run folder; runs/MODEL-DATA-SEED if not given, with a number behind it where that exists");
  parser.add_option("--resume", options->resume,
                    "the folder of a run to go on with, exactly as if it had never stopped");
  parser.add_option("--config", options->config_file,
                    "settings from a file, such as the config.json of a run; options on the command line go before it");
  parser
      .add_option("--set", options->settings,
                  "settings NAME=VALUE,.. by the names that config.json has, which go before those of --config")
      .comma_separated();
  parser.add_flag("--dry-run", options->dry_run, "read the data, compile, say what would be trained, and stop");
  add_device_option(parser, options->device);
  add_threads_option(parser, options->device);
  add_tune_option(parser, options->device);
  add_rank_options(parser, options->rank_choice);
  visit_fields(config, [&](const char* group, const char* name, auto& value, const char* help) {
    add_option(parser, *options, group, name, value, help);
  });
  parser.set_footer(kExamples);
  parser.before_help([options, model] { hide_others(*options, model.given() ? options->config.model : ""); });
  return [options, model] {
    options->ranks = open_ranks(options->rank_choice);
    return run_on_ranks(*options->ranks, [&] { return train(*options, model.given()); });
  };
}

}  // namespace moxie
