#include "data/loaders.h"

#include <fmt/format.h>

#include <numeric>

#include "compiler/support/error.h"
#include "data/synthetic.h"

namespace moxie {

Dataset make_dataset(std::string_view name, const Table& table, const Roles& roles, const RowSplit& rows,
                     const LoadOptions& options) {
  Encoding encoding = options.encoding ? *options.encoding : fit_encoding(table, roles, rows.train);
  const Samples all{
      encode_features(table, encoding), encode_targets(table, encoding), {{}, kept_columns(table, options), 0}};
  return split_samples(std::string(name), all, std::move(encoding), rows, options.validation_share, options.seed);
}

std::vector<std::pair<std::string, std::vector<std::string>>> kept_columns(const Table& table,
                                                                           const LoadOptions& options) {
  std::vector<std::pair<std::string, std::vector<std::string>>> kept;
  for (const std::string& selector : options.kept) {
    const Column& column = table.columns[table.find(selector)];
    auto& texts = kept.emplace_back(column.name, std::vector<std::string>()).second;
    for (std::size_t row = 0; row < table.rows(); ++row) texts.push_back(text_of(column, row));
  }
  return kept;
}

RowSplit default_split(std::size_t rows, std::size_t split) {
  constexpr double kTestShare = 0.2;
  constexpr std::uint64_t kSeed = 20'210'301;  // any constant, but never another: it decides which rows are test rows
  return random_split(rows, kTestShare, kSeed + split);
}

Roles last_column_roles(const Table& table, Task task) {
  std::vector<std::size_t> features(table.columns.size() - 1);
  std::iota(features.begin(), features.end(), std::size_t{0});
  return {task, std::move(features), {table.columns.size() - 1}, Scaling::UnitRange};
}

void require_shape(const Table& table, std::size_t rows, std::size_t columns) {
  if (table.rows() == rows && table.columns.size() == columns) return;
  throw DataError(
      fmt::format("{}: has {} rows of {} columns; the set has {} of {}, so the file is incomplete or another one",
                  fmt::join(table.files, " and "), table.rows(), table.columns.size(), rows, columns));
}

Dataset load_synthetic(const Preset& preset, const LoadOptions& options) {
  const Table table = synthetic_spirals(options.split);
  return make_dataset(preset.name, table, last_column_roles(table, preset.task),
                      default_split(table.rows(), options.split), options);
}

Dataset load_synthetic_regression(const Preset& preset, const LoadOptions& options) {
  const Table table = synthetic_regression(options.split);
  return make_dataset(preset.name, table, last_column_roles(table, preset.task),
                      default_split(table.rows(), options.split), options);
}

}  // namespace moxie
