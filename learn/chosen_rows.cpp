#include "learn/chosen_rows.h"

#include <fmt/format.h>

#include "compiler/support/error.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

/// A model can come from somebody else and name any file. Throws UsageError for one that only the model names, and says
/// which option opens it.
void require_named_by_user(const RowChoice& choice, const TrainConfig& config, const std::string& run) {
  constexpr const char* kRule = "predict opens nothing that only a model names";
  if (choice.data.empty() && names_file(config.data))
    throw UsageError(
        fmt::format("{0} was trained on {1}, and {2}; to read that file, add --data '{1}'", run, config.data, kRule));
  const std::string& data = choice.data.empty() ? config.data : choice.data;
  if (choice.data_dir.empty() && reads_data_folder(data) && config.data_dir != TrainConfig().data_dir)
    throw UsageError(
        fmt::format("{0} was trained on files in the folder {1}, and {2}; to read {3} there, add --data-dir '{1}'", run,
                    config.data_dir, kRule, data));
}

/// Whether both name the same file or set.
bool is_same(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const std::size_t colon = a.find(':');
  if (colon == a.npos || a.compare(0, colon + 1, b, 0, colon + 1) != 0) return false;
  std::error_code error;
  return fs::equivalent(a.substr(colon + 1), b.substr(colon + 1), error);
}

std::string counted(const Samples& samples, std::string_view kind, const std::string& data) {
  return fmt::format("{} {} rows of {}", samples.rows(), kind, data);
}

/// Training, validation or test rows of the set that the model was trained on, divided as they were then.
ChosenRows part_of(const std::string& rows, const std::string& data, const SavedModel& model,
                   const LoadOptions& options, const std::string& run) {
  if (!model.config.test_file.empty()) {
    const std::string kind = data.substr(0, data.find(':') + 1);
    throw UsageError(
        fmt::format("{} was trained on {}, whose rows are no test rows: those are in {}; add --data '{}{}', or choose "
                    "--rows all for the rows that it was trained and validated on",
                    run, data, model.config.test_file, kind, model.config.test_file));
  }
  Dataset set = load_dataset(data, options);
  if (training_digest(set) != model.data)
    throw UsageError(
        fmt::format("{} has changed since {} was trained on it, and which rows trained it is not known any more{}",
                    data, run, names_file(data) ? "; --rows all is for all of them" : ""));
  Samples& samples = rows == "train" ? set.train : rows == "validation" ? set.validation : set.test;
  const std::string kind = rows == "train" ? "training" : rows;
  ChosenRows chosen{std::move(samples), ""};
  chosen.description = counted(chosen.samples, kind, data);
  if (names_file(data) && rows == "test") chosen.description += "; --rows all is for all of them";
  return chosen;
}

}  // namespace

ChosenRows choose_rows(const RowChoice& choice, const SavedModel& model, const std::string& run) {
  require_named_by_user(choice, model.config, run);
  const std::string data = choice.data.empty() ? model.config.data : choice.data;
  LoadOptions options = load_options(model.config);
  options.encoding = &model.encoding;
  if (!choice.data_dir.empty()) options.data_dir = choice.data_dir;
  options.test_file.clear();  // named by the model, and for training only
  options.kept = choice.kept;
  options.unexpected = choice.unexpected;
  const bool is_file = names_file(data);
  const bool known_division = !is_file || is_same(data, model.config.data);
  const std::string rows = choice.rows.empty() ? (known_division ? "test" : "all") : choice.rows;
  if (rows == "all" && !is_file)
    throw UsageError(fmt::format("--rows all: {} is divided; choose train, validation or test", data));
  if (rows != "all" && !known_division)
    throw UsageError(
        fmt::format("--rows {}: {} is not what {} was trained on, and its rows are not divided", rows, data, run));
  if (rows != "all") return part_of(rows, data, model, options, run);
  ChosenRows chosen{load_for_prediction(data, options), ""};
  chosen.description =
      fmt::format("{}{} rows of {}", chosen.samples.labels.left_out > 0 ? "" : "all ", chosen.samples.rows(), data);
  if (known_division) chosen.description += ", the training rows among them";
  if (const std::size_t left_out = chosen.samples.labels.left_out; left_out > 0)
    chosen.description += fmt::format("; {} more are left out, since something in them is unexpected", left_out);
  return chosen;
}

}  // namespace moxie
