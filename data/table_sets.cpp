// Files of the user's own whose rows are columns of numbers and categories.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/error.h"
#include "data/arrays.h"
#include "data/loaders.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

/// A kind of file, and how it becomes a table.
struct TableFile {
  std::string_view prefix;
  Table (*read)(const fs::path& file, const TableOptions& layout);
};
constexpr TableFile kCsv{"csv:", read_table}, kNpz{"npz:", read_npz_table},
    kSafetensors{"safetensors:", read_safetensors_table};

/// Kinds of the columns as an encoding knows them: a column of codes is categorical even if it looks like numbers.
void use_kinds_of(const Encoding& encoding, TableOptions& layout) {
  for (const FeatureEncoding& feature : encoding.features) layout.kinds[feature.column] = feature.kind;
  for (const TargetEncoding& target : encoding.targets) layout.kinds[target.column] = ColumnKind::Numeric;
  if (encoding.task == Task::Classification) layout.kinds[encoding.class_column] = ColumnKind::Categorical;
}

/// What nobody reads as numbers, such as names and dates, may hold anything.
TableOptions layout_of(const LoadOptions& options) {
  TableOptions layout;
  if (!options.missing.empty()) layout.missing = options.missing;
  layout.header = options.header;
  layout.texts = options.ignored;
  return layout;
}

Table read_training_table(const TableFile& kind, const fs::path& file, const LoadOptions& options) {
  TableOptions layout = layout_of(options);
  if (options.encoding) {
    use_kinds_of(*options.encoding, layout);
    layout.only_known_numbers = true;
    layout.texts.clear();
    return kind.read(file, layout);
  }
  layout.categorical = options.categorical;
  if (options.task == Task::Classification) {
    layout.categorical.insert(layout.categorical.end(), options.targets.begin(), options.targets.end());
    if (options.targets.empty()) layout.categorical.emplace_back("-1");
  }
  return kind.read(file, layout);
}

Table read_test_table(const TableFile& kind, const fs::path& file, const Table& train, const LoadOptions& options) {
  TableOptions layout = layout_of(options);
  for (const Column& column : train.columns) layout.kinds[column.name] = column.kind;
  return kind.read(file, layout);
}

std::vector<std::size_t> target_columns(const Table& table, const LoadOptions& options) {
  std::vector<std::size_t> targets;
  for (const std::string& selector : options.targets) targets.push_back(table.find(selector));
  if (targets.empty())
    for (std::size_t k = table.targets; k > 0; --k) targets.push_back(table.columns.size() - k);
  if (targets.empty())
    throw DataError(fmt::format("{}: has no targets to learn: array 'y' is missing", table.files[0]));
  return targets;
}

/// Zeros and ones are classes as often as values, and what is trained is another network.
void require_values(const Table& table, std::size_t target) {
  const std::vector<double>& numbers = table.columns[target].numbers;
  if (std::ranges::all_of(numbers, [](double value) { return value == 0 || value == 1 || std::isnan(value); }))
    throw DataError(
        fmt::format("{}: the target '{}' holds nothing but 0 and 1; say what these are: --task classify for "
                    "classes, --task regress for values",
                    table.files[0], excerpt(table.columns[target].name)));
}

Roles roles_of(const Table& table, const LoadOptions& options) {
  Roles roles;
  roles.targets = target_columns(table, options);
  const bool words = table.columns[roles.targets[0]].kind == ColumnKind::Categorical;
  if (!words && !options.task) require_values(table, roles.targets[0]);
  roles.task = options.task.value_or(words ? Task::Classification : Task::Regression);
  std::vector<bool> is_feature(table.columns.size(), true);
  for (const std::size_t target : roles.targets) is_feature[target] = false;
  for (const std::string& selector : options.ignored) is_feature[table.find(selector)] = false;
  for (std::size_t i = 0; i < is_feature.size(); ++i)
    if (is_feature[i]) roles.features.push_back(i);
  for (const std::string& selector : options.unscaled) {
    roles.unscaled.push_back(table.find(selector));
    const Column& column = table.columns[roles.unscaled.back()];
    if (column.kind != ColumnKind::Numeric)
      throw DataError(
          fmt::format("{}: column '{}' holds words or classes, which have no scale: leave it out of "
                      "--unscaled",
                      table.files[0], excerpt(column.name)));
  }
  return roles;
}

bool has_targets(const Table& table, const Encoding& encoding) {
  if (encoding.task == Task::Classification) return table.find_name(encoding.class_column).has_value();
  return std::ranges::all_of(encoding.targets,
                             [&](const TargetEncoding& target) { return table.find_name(target.column).has_value(); });
}

bool has_target(const Table& table, const Roles& roles, std::size_t row) {
  return std::ranges::none_of(roles.targets, [&](std::size_t target) {
    const Column& column = table.columns[target];
    return column.kind == ColumnKind::Numeric ? std::isnan(column.numbers[row])
                                              : column.categories[column.codes[row]] == kMissing;
  });
}

/// The rows that have a target, divided as they were among the others.
Dataset without_missing_targets(const std::string& name, const Table& table, const Roles& roles, const RowSplit& rows,
                                const LoadOptions& options) {
  std::vector<std::size_t> kept, position(table.rows());
  std::vector<bool> is_kept(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    is_kept[row] = has_target(table, roles, row);
    position[row] = kept.size();
    if (is_kept[row]) kept.push_back(row);
  }
  if (kept.empty()) throw DataError(fmt::format("{}: no row has a target", table.files[0]));
  RowSplit split;
  for (const std::size_t row : rows.train)
    if (is_kept[row]) split.train.push_back(position[row]);
  for (const std::size_t row : rows.test)
    if (is_kept[row]) split.test.push_back(position[row]);
  Dataset data = make_dataset(name, select_rows(table, kept), roles, split, options);
  data.left_out = table.rows() - kept.size();
  for (Samples* samples : {&data.train, &data.validation, &data.test})
    for (std::size_t& number : samples->labels.numbers) number = kept[number - 1] + 1;
  return data;
}

/// The rows of a fold, in which each class has its part.
RowSplit fold_rows(const Table& table, const Roles& roles, const LoadOptions& options) {
  const std::string& file = table.files[0];
  if (!options.test_file.empty())
    throw DataError(fmt::format("{}: --folds takes its test rows from this file; leave out --test-file {}", file,
                                options.test_file.string()));
  if (options.fold < 1 || options.fold > options.folds)
    throw DataError(
        fmt::format("{}: which of the {} folds? There is none with number {}", file, options.folds, options.fold));
  if (options.folds > table.rows())
    throw DataError(fmt::format("{}: {} folds need as many rows, and there are {}; give fewer --folds", file,
                                options.folds, table.rows()));
  const Column& target = table.columns[roles.targets[0]];
  std::vector<std::uint32_t> strata(table.rows());
  if (roles.task == Task::Classification && target.kind == ColumnKind::Categorical) strata = target.codes;
  constexpr std::uint64_t kSeed = 20'261'123;  // any constant, but never another: it decides which rows are test rows
  return fold_split(strata, options.folds, options.fold - 1, kSeed + options.split);
}

Dataset load(const TableFile& kind, const fs::path& file, const LoadOptions& options) {
  const std::string name = std::string(kind.prefix) + file.string();
  Table table = read_training_table(kind, file, options);
  const Roles roles = roles_of(table, options);
  RowSplit rows = options.folds > 0 ? fold_rows(table, roles, options) : default_split(table.rows(), options.split);
  if (!options.test_file.empty()) {
    const std::size_t train_rows = table.rows();
    const Table test = read_test_table(kind, options.test_file, table, options);
    table = concatenate(std::move(table), test);
    rows = ordered_split(table.rows(), train_rows);
  }
  if (!options.skips_missing_targets) return make_dataset(name, table, roles, rows, options);
  return without_missing_targets(name, table, roles, rows, options);
}

Samples load_for_prediction(const TableFile& kind, const fs::path& file, const LoadOptions& options) {
  Table table = read_training_table(kind, file, options);
  const Encoding& encoding = *options.encoding;
  RowLabels labels;
  if (options.unexpected == Unexpected::Skip) {
    const std::vector<std::size_t> rows = expected_rows(table, encoding);
    if (rows.empty()) throw DataError(fmt::format("{}: every row has something unexpected", table.files[0]));
    for (const std::size_t row : rows) labels.numbers.push_back(row + 1);
    labels.left_out = table.rows() - rows.size();
    table = select_rows(table, rows);
  }
  labels.kept = kept_columns(table, options);
  return {encode_features(table, encoding, options.unexpected),
          has_targets(table, encoding) ? encode_targets(table, encoding, true) : Matrix(table.rows(), 0),
          std::move(labels)};
}

}  // namespace

Dataset load_csv(const fs::path& file, const LoadOptions& options) { return load(kCsv, file, options); }
Dataset load_npz(const fs::path& file, const LoadOptions& options) { return load(kNpz, file, options); }
Dataset load_safetensors(const fs::path& file, const LoadOptions& options) { return load(kSafetensors, file, options); }

Samples load_csv_for_prediction(const fs::path& file, const LoadOptions& options) {
  return load_for_prediction(kCsv, file, options);
}
Samples load_npz_for_prediction(const fs::path& file, const LoadOptions& options) {
  return load_for_prediction(kNpz, file, options);
}
Samples load_safetensors_for_prediction(const fs::path& file, const LoadOptions& options) {
  return load_for_prediction(kSafetensors, file, options);
}

}  // namespace moxie
