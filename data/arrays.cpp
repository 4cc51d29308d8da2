#include "data/arrays.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_map>

#include "compiler/support/error.h"
#include "data/file.h"
#include "data/npy.h"
#include "runtime/safetensors.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

constexpr const char *kFeatures = "x", *kTargets = "y";

/// An array of a file, its values row after row.
struct Rows {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<double> values;

  std::size_t count() const { return shape[0]; }
  std::size_t width() const { return count() == 0 ? 0 : values.size() / count(); }
  std::string column_name(std::size_t column) const {
    return shape.size() == 1 ? name : fmt::format("{}{}", name, column + 1);
  }
};

/// A number as a category: 3 is "3", as in a text.
std::string category_of(double value) { return std::isnan(value) ? std::string(kMissing) : fmt::format("{}", value); }

class ArrayTable {
 public:
  ArrayTable(std::string file, const Rows& features) {
    table_.files = {std::move(file)};
    for (std::size_t row = 0; row < features.count(); ++row) table_.origins.push_back({0, row + 1});
    append(features);
    table_.targets = 0;
  }

  void append_targets(const Rows& targets) {
    if (targets.count() != table_.rows())
      throw DataError(fmt::format("{}: array '{}' has {} rows, but '{}' has {}", table_.files[0], kTargets,
                                  targets.count(), kFeatures, table_.rows()));
    append(targets);
    table_.targets = targets.width();
  }

  Table build(const TableOptions& options) {
    for (Column& column : table_.columns) {
      const auto known = options.kinds.find(column.name);
      if (known != options.kinds.end()) column.kind = known->second;
    }
    for (const std::string& selector : options.categorical)
      table_.columns[table_.find(selector)].kind = ColumnKind::Categorical;
    for (std::size_t i = 0; i < table_.columns.size(); ++i)
      table_.columns[i].kind == ColumnKind::Numeric ? check_numbers(i) : to_categories(table_.columns[i]);
    return std::move(table_);
  }

 private:
  void append(const Rows& rows) {
    for (std::size_t k = 0; k < rows.width(); ++k) {
      Column& column = table_.columns.emplace_back();
      column.name = rows.column_name(k);
      column.numbers.reserve(rows.count());
      for (std::size_t row = 0; row < rows.count(); ++row)
        column.numbers.push_back(rows.values[row * rows.width() + k]);
    }
  }

  void check_numbers(std::size_t column) const {
    const std::vector<double>& numbers = table_.columns[column].numbers;
    for (std::size_t row = 0; row < numbers.size(); ++row)
      if (std::isinf(numbers[row]))
        throw DataError(fmt::format("{}: {} is not a finite number; write nan for a missing value",
                                    table_.place(row, column), numbers[row]));
  }

  static void to_categories(Column& column) {
    std::unordered_map<std::string, std::uint32_t> code_of;
    for (const double value : column.numbers) {
      const auto [entry, added] =
          code_of.emplace(category_of(value), static_cast<std::uint32_t>(column.categories.size()));
      if (added) column.categories.push_back(entry->first);
      column.codes.push_back(entry->second);
    }
    column.numbers.clear();
    rename_categories(column, [](std::string_view name) { return std::string(name); });
  }

  Table table_;
};

/// `find` gives an array by its name, or nothing.
template <class Find>
Table table_of(const fs::path& path, const TableOptions& options, const Find& find) {
  const std::string file = path.string();
  const std::optional<Rows> features = find(kFeatures), targets = find(kTargets);
  if (!features)
    throw DataError(fmt::format("{}: has no array '{}' of features (and '{}' of targets)", file, kFeatures, kTargets));
  for (const std::optional<Rows>& rows : {features, targets}) {
    if (rows && rows->shape.empty())
      throw DataError(
          fmt::format("{}: array '{}' is a single number; its first axis must be that of the rows", file, rows->name));
    if (rows && rows->values.empty()) throw DataError(fmt::format("{}: array '{}' is empty", file, rows->name));
  }
  ArrayTable table(file, *features);
  if (targets) table.append_targets(*targets);
  return table.build(options);
}

}  // namespace

Table read_npz_table(const fs::path& path, const TableOptions& options) {
  const NpyArrays arrays = parse_npz(read_whole_file(path), path.string());
  return table_of(path, options, [&](const char* name) -> std::optional<Rows> {
    const auto found = arrays.find(name);
    if (found == arrays.end()) return std::nullopt;
    return Rows{name, found->second.shape, found->second.to<double>()};
  });
}

Table read_safetensors_table(const fs::path& path, const TableOptions& options) {
  const TensorFile file = read_safetensors(path);
  return table_of(path, options, [&](const char* name) -> std::optional<Rows> {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) return std::nullopt;
    return Rows{name, {found->second.shape.begin(), found->second.shape.end()}, to_doubles(found->second)};
  });
}

}  // namespace moxie
