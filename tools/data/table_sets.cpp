// Files of the user's own whose rows are columns of numbers and categories.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "tools/data/arrays.h"
#include "tools/data/loaders.h"

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

Table read_training_table(const TableFile& kind, const fs::path& file, const LoadOptions& options) {
  TableOptions layout;
  if (options.encoding) {
    use_kinds_of(*options.encoding, layout);
    return kind.read(file, layout);
  }
  layout.categorical = options.categorical;
  if (options.task == Task::Classification) {
    layout.categorical.insert(layout.categorical.end(), options.targets.begin(), options.targets.end());
    if (options.targets.empty()) layout.categorical.emplace_back("-1");
  }
  return kind.read(file, layout);
}

Table read_test_table(const TableFile& kind, const fs::path& file, const Table& train) {
  TableOptions layout;
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

Roles roles_of(const Table& table, const LoadOptions& options) {
  Roles roles;
  roles.targets = target_columns(table, options);
  const bool words = table.columns[roles.targets[0]].kind == ColumnKind::Categorical;
  roles.task = options.task.value_or(words ? Task::Classification : Task::Regression);
  std::vector<bool> is_feature(table.columns.size(), true);
  for (const std::size_t target : roles.targets) is_feature[target] = false;
  for (const std::string& selector : options.ignored) is_feature[table.find(selector)] = false;
  for (std::size_t i = 0; i < is_feature.size(); ++i)
    if (is_feature[i]) roles.features.push_back(i);
  return roles;
}

bool has_targets(const Table& table, const Encoding& encoding) {
  if (encoding.task == Task::Classification) return table.find_name(encoding.class_column).has_value();
  return std::ranges::all_of(encoding.targets,
                             [&](const TargetEncoding& target) { return table.find_name(target.column).has_value(); });
}

Dataset load(const TableFile& kind, const fs::path& file, const LoadOptions& options) {
  const std::string name = std::string(kind.prefix) + file.string();
  Table table = read_training_table(kind, file, options);
  const Roles roles = roles_of(table, options);
  if (options.test_file.empty())
    return make_dataset(name, table, roles, default_split(table.rows(), options.split), options);
  const std::size_t train_rows = table.rows();
  const Table test = read_test_table(kind, options.test_file, table);
  table = concatenate(std::move(table), test);
  return make_dataset(name, table, roles, ordered_split(table.rows(), train_rows), options);
}

Samples load_for_prediction(const TableFile& kind, const fs::path& file, const LoadOptions& options) {
  const Table table = read_training_table(kind, file, options);
  const Encoding& encoding = *options.encoding;
  return {encode_features(table, encoding),
          has_targets(table, encoding) ? encode_targets(table, encoding) : Matrix(table.rows(), 0)};
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
