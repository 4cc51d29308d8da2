#include <algorithm>

#include "tools/data/loaders.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> target_selectors(const LoadOptions& options) {
  return options.targets.empty() ? std::vector<std::string>{"-1"} : options.targets;
}

/// Kinds of the columns as an encoding knows them: a column of codes is categorical even if it looks like numbers.
void use_kinds_of(const Encoding& encoding, TableOptions& layout) {
  for (const FeatureEncoding& feature : encoding.features) layout.kinds[feature.column] = feature.kind;
  for (const TargetEncoding& target : encoding.targets) layout.kinds[target.column] = ColumnKind::Numeric;
  if (encoding.task == Task::Classification) layout.kinds[encoding.class_column] = ColumnKind::Categorical;
}

Table read_training_table(const fs::path& file, const LoadOptions& options) {
  TableOptions layout;
  layout.categorical = options.categorical;
  if (options.encoding) use_kinds_of(*options.encoding, layout);
  if (options.task == Task::Classification)
    for (const std::string& target : target_selectors(options)) layout.categorical.push_back(target);
  return read_table(file, layout);
}

Table read_test_table(const fs::path& file, const Table& train) {
  TableOptions layout;
  for (const Column& column : train.columns) layout.kinds[column.name] = column.kind;
  return read_table(file, layout);
}

Roles csv_roles(const Table& table, const LoadOptions& options) {
  Roles roles;
  for (const std::string& selector : target_selectors(options)) roles.targets.push_back(table.find(selector));
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

}  // namespace

Dataset load_csv(const fs::path& file, const LoadOptions& options) {
  const std::string name = "csv:" + file.string();
  Table table = read_training_table(file, options);
  if (options.test_file.empty())
    return make_dataset(name, table, csv_roles(table, options), default_split(table.rows(), options.split), options);
  const std::size_t train_rows = table.rows();
  const Table test = read_test_table(options.test_file, table);
  table = concatenate(std::move(table), test);
  return make_dataset(name, table, csv_roles(table, options), ordered_split(table.rows(), train_rows), options);
}

Samples load_csv_for_prediction(const fs::path& file, const LoadOptions& options) {
  const Table table = read_training_table(file, options);
  const Encoding& encoding = *options.encoding;
  return {encode_features(table, encoding),
          has_targets(table, encoding) ? encode_targets(table, encoding) : Matrix(table.rows(), 0)};
}

}  // namespace moxie
