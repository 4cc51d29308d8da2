#include <numeric>

#include "data/loaders.h"
#include "data/locate.h"

namespace moxie {
namespace {

TableOptions comma_layout() {
  TableOptions layout;
  layout.separator = Separator::Comma;
  layout.header = false;
  return layout;
}

}  // namespace

Dataset load_letter(const Preset& preset, const LoadOptions& options) {
  constexpr std::size_t kTrainRows = 16'000, kRows = 20'000, kColumns = 17;  // the donor's own division
  const auto path = locate(options.data_dir, {"letter-recognition", ""}, "letter-recognition.data", preset.origin);
  const Table table = read_table(path, comma_layout());
  require_shape(table, kRows, kColumns);
  std::vector<std::size_t> features(kColumns - 1);
  std::iota(features.begin(), features.end(), std::size_t{1});
  return make_dataset(preset.name, table, {preset.task, features, {0}, Scaling::UnitRange},
                      ordered_split(kRows, kTrainRows), options);
}

Dataset load_adult(const Preset& preset, const LoadOptions& options) {
  constexpr std::size_t kTrainRows = 32'561, kRows = kTrainRows + 16'281, kColumns = 15;
  TableOptions layout = comma_layout();
  layout.comment_marks = "|";  // the test file opens with "|1x3 Cross validator"
  const auto path = [&](const char* file) { return locate(options.data_dir, {"adult", ""}, file, preset.origin); };
  const Table train = read_table(path("adult.data"), layout);
  Table test = read_table(path("adult.test"), layout);
  const auto without_stop = [](std::string_view label) {  // the test file ends its labels with a full stop
    return std::string(label.ends_with('.') ? label.substr(0, label.size() - 1) : label);
  };
  rename_categories(test.columns.back(), without_stop);
  const Table table = concatenate(train, test);
  require_shape(table, kRows, kColumns);
  return make_dataset(preset.name, table, last_column_roles(table, preset.task), ordered_split(kRows, kTrainRows),
                      options);
}

Dataset load_connect4(const Preset& preset, const LoadOptions& options) {
  constexpr std::size_t kRows = 67'557, kColumns = 43;
  const auto path = locate(options.data_dir, {"connect-4", ""}, "connect-4.data", preset.origin);
  const Table table = read_table(path, comma_layout());
  require_shape(table, kRows, kColumns);
  return make_dataset(preset.name, table, last_column_roles(table, preset.task), default_split(kRows, options.split),
                      options);
}

}  // namespace moxie
