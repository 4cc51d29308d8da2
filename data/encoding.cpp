#include "data/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "compiler/support/error.h"

namespace moxie {
namespace {

/// A column with more is an identifier rather than a feature, and its one-hot matrix would fill the memory.
constexpr std::size_t kMostCategories = 1000;
/// Of a feature matrix: 16 GiB of floats.
constexpr std::size_t kMostValues = std::size_t{1} << 32;

struct Statistics {
  std::size_t count = 0;
  double mean = 0, sd = 0, min = std::numeric_limits<double>::infinity(),
         max = -std::numeric_limits<double>::infinity();
};

/// Of the values that are not missing. Two passes, since data far from zero would lose its variance in one.
Statistics statistics_of(const Column& column, std::span<const std::size_t> rows) {
  Statistics result;
  double sum = 0, squares = 0;
  for (const std::size_t row : rows) {
    const double value = column.numbers[row];
    if (std::isnan(value)) continue;
    ++result.count;
    sum += value;
    result.min = std::min(result.min, value);
    result.max = std::max(result.max, value);
  }
  if (result.count == 0) return {0, 0, 0, 0, 0};
  result.mean = sum / static_cast<double>(result.count);
  for (const std::size_t row : rows)
    if (!std::isnan(column.numbers[row]))
      squares += (column.numbers[row] - result.mean) * (column.numbers[row] - result.mean);
  result.sd = std::sqrt(squares / static_cast<double>(result.count));
  return result;
}

/// The reciprocal of a spread, or 0 for a column that is constant (up to the rounding of its mean).
double reciprocal(double spread, double magnitude) {
  constexpr double kRounding = 1e-12;
  return spread > kRounding * magnitude ? 1 / spread : 0;
}

NumericEncoding fit_numeric(const Column& column, Scaling scaling, std::span<const std::size_t> rows) {
  const Statistics s = statistics_of(column, rows);
  const double magnitude = std::max(std::abs(s.min), std::abs(s.max));
  if (scaling == Scaling::UnitRange) return {s.min, s.max > s.min ? 1 / (s.max - s.min) : 0, s.mean};
  return {s.mean, reciprocal(s.sd, magnitude), s.mean};
}

bool is_unscaled(const Roles& roles, std::size_t column) {
  return std::ranges::find(roles.unscaled, column) != roles.unscaled.end();
}

FeatureEncoding fit_feature(const Table& table, std::size_t index, const Roles& roles,
                            std::span<const std::size_t> rows) {
  const Column& column = table.columns[index];
  FeatureEncoding feature{column.name, column.kind, {}, false, column.categories};
  if (column.kind == ColumnKind::Categorical) {
    if (column.categories.size() > kMostCategories)
      throw DataError(
          fmt::format("{}: column {} '{}' has {} different values, more than {}: leave it out, or make it numbers",
                      table.files[0], index + 1, excerpt(column.name), column.categories.size(), kMostCategories));
    return feature;
  }
  feature.numeric = fit_numeric(column, roles.scaling, rows);
  if (is_unscaled(roles, index)) feature.numeric = {.mean = feature.numeric.mean};
  feature.missing_flag = std::ranges::any_of(column.numbers, [](double value) { return std::isnan(value); });
  return feature;
}

void fit_classes(const Table& table, std::size_t index, Encoding& encoding) {
  const Column& column = table.columns[index];
  if (column.kind != ColumnKind::Categorical)
    throw DataError(fmt::format("{}: target column {} '{}' holds numbers; for classes declare it categorical",
                                table.files[0], index + 1, excerpt(column.name)));
  if (column.categories.size() < 2 || column.categories.size() > kMostCategories)
    throw DataError(fmt::format("{}: target column {} '{}' has {} different values; classes must be 2 to {}",
                                table.files[0], index + 1, excerpt(column.name), column.categories.size(),
                                kMostCategories));
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (column.categories[column.codes[row]] == kMissing)
      throw DataError(
          fmt::format("{}: the class is missing; --missing-target skip leaves such rows out", table.place(row, index)));
  encoding.class_column = column.name;
  encoding.classes = column.categories;
}

TargetEncoding fit_target(const Table& table, std::size_t index, const Roles& roles,
                          std::span<const std::size_t> rows) {
  const Column& column = table.columns[index];
  if (column.kind != ColumnKind::Numeric)
    throw DataError(fmt::format("{}: target column {} '{}' holds words ('{}'); regression needs numbers",
                                table.files[0], index + 1, excerpt(column.name), excerpt(column.categories.front())));
  if (is_unscaled(roles, index)) return {column.name};
  const Statistics s = statistics_of(column, rows);
  const bool constant = reciprocal(s.sd, std::max(std::abs(s.min), std::abs(s.max))) == 0;
  return {column.name, s.mean, constant ? 1 : s.sd};
}

std::string known_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += fmt::format(" '{}'", excerpt(names[i]));
  return names.size() > kMost ? text + " ..." : text;
}

/// The position of each of the column's categories in `names`; none for a category that is not there.
std::vector<std::optional<std::size_t>> positions(const Column& column, const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, std::size_t> known;  // both lists come from files and may be long
  for (std::size_t i = 0; i < names.size(); ++i) known.emplace(names[i], i);
  std::vector<std::optional<std::size_t>> result;
  for (const std::string& category : column.categories) {
    const auto found = known.find(category);
    result.push_back(found == known.end() ? std::nullopt : std::optional(found->second));
  }
  return result;
}

void require_kind(const Table& table, std::size_t index, ColumnKind kind) {
  const Column& column = table.columns[index];
  if (column.kind == kind) return;
  throw DataError(fmt::format("{}: column {} '{}' holds {}, but {} are wanted", table.files[0], index + 1,
                              excerpt(column.name), kind == ColumnKind::Numeric ? "words" : "numbers",
                              kind == ColumnKind::Numeric ? "numbers" : "words"));
}

/// How to go on, for messages about what a file has and the training rows had not.
constexpr const char* kOtherwise = "; --unexpected unknown or skip goes on";

/// Writes a categorical column as one-hot from feature `begin` on.
void write_one_hot(const Table& table, std::size_t index, const std::vector<std::string>& names, Unexpected unexpected,
                   Matrix& out, std::size_t begin) {
  require_kind(table, index, ColumnKind::Categorical);
  const Column& column = table.columns[index];
  const auto position = positions(column, names);
  const auto missing = std::ranges::find(names, kMissing);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::uint32_t code = column.codes[row];
    if (position[code]) {
      out(row, begin + *position[code]) = 1;
    } else if (unexpected != Unexpected::Unknown) {
      throw DataError(fmt::format("{}: '{}' is not one of the known values{}{}", table.place(row, index),
                                  excerpt(column.categories[code]), known_names(names), kOtherwise));
    } else if (missing != names.end()) {
      out(row, begin + static_cast<std::size_t>(missing - names.begin())) = 1;
    }
  }
}

float scaled_number(const Table& table, std::size_t row, std::size_t index, const NumericEncoding& numeric) {
  const double value = table.columns[index].numbers[row];
  const auto scaled = static_cast<float>((value - numeric.offset) * numeric.scale);
  if (!std::isfinite(scaled))
    throw DataError(
        fmt::format("{}: {} is too far from the training values to be scaled", table.place(row, index), value));
  return scaled;
}

/// Writes (value - offset) * scale into feature `at`; a missing value sets the feature beside it.
void write_numeric(const Table& table, std::size_t index, const NumericEncoding& numeric, bool missing_flag,
                   Unexpected unexpected, Matrix& out, std::size_t at) {
  require_kind(table, index, ColumnKind::Numeric);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double given = table.columns[index].numbers[row];
    const bool is_missing = std::isnan(given);
    if (is_missing && missing_flag) {
      out(row, at + 1) = 1;
      continue;
    }
    if (is_missing && unexpected != Unexpected::Unknown)
      throw DataError(fmt::format("{}: the value is missing, and the training rows had all{}", table.place(row, index),
                                  kOtherwise));
    out(row, at) = is_missing ? static_cast<float>((numeric.mean - numeric.offset) * numeric.scale)
                              : scaled_number(table, row, index, numeric);
  }
}

void write_classes(const Table& table, std::size_t index, const std::vector<std::string>& classes, bool allow_missing,
                   Matrix& out) {
  require_kind(table, index, ColumnKind::Categorical);
  const Column& column = table.columns[index];
  const auto position = positions(column, classes);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::uint32_t code = column.codes[row];
    if (position[code]) {
      out(row, *position[code]) = 1;
    } else if (allow_missing && column.categories[code] == kMissing) {
      for (float& value : out.row(row)) value = std::numeric_limits<float>::quiet_NaN();
    } else {
      throw DataError(fmt::format("{}: '{}' is not one of the known values{}", table.place(row, index),
                                  excerpt(column.categories[code]), known_names(classes)));
    }
  }
}

std::size_t column_of(const Table& table, const std::string& name) {
  const std::optional<std::size_t> column = table.find_name(name);
  if (!column)
    throw DataError(fmt::format("{}: has no column '{}', which the model needs", table.files[0], excerpt(name)));
  return *column;
}

}  // namespace

std::size_t Encoding::feature_count() const {
  std::size_t count = 0;
  for (const FeatureEncoding& feature : features) count += feature.width();
  return count;
}

std::vector<std::string> Encoding::feature_names() const {
  std::vector<std::string> names;
  for (const FeatureEncoding& feature : features) {
    if (feature.kind == ColumnKind::Numeric) names.push_back(feature.column);
    if (feature.missing_flag) names.push_back(fmt::format("{}={}", feature.column, kMissing));
    for (const std::string& category : feature.categories)
      names.push_back(fmt::format("{}={}", feature.column, category));
  }
  return names;
}

Encoding fit_encoding(const Table& table, const Roles& roles, std::span<const std::size_t> training_rows) {
  Encoding encoding;
  encoding.task = roles.task;
  for (const std::size_t column : roles.features)
    encoding.features.push_back(fit_feature(table, column, roles, training_rows));
  if (encoding.features.empty()) throw DataError(fmt::format("{}: has no column left for features", table.files[0]));
  if (roles.task == Task::Regression) {
    for (const std::size_t column : roles.targets)
      encoding.targets.push_back(fit_target(table, column, roles, training_rows));
  } else if (roles.targets.size() == 1) {
    fit_classes(table, roles.targets[0], encoding);
  } else {
    throw DataError(
        fmt::format("{}: classification needs one target column, not {}", table.files[0], roles.targets.size()));
  }
  return encoding;
}

std::vector<std::size_t> expected_rows(const Table& table, const Encoding& encoding) {
  std::vector<bool> expected(table.rows(), true);
  for (const FeatureEncoding& feature : encoding.features) {
    const Column& column = table.columns[column_of(table, feature.column)];
    if (column.kind == ColumnKind::Categorical) {
      const auto known = positions(column, feature.categories);
      for (std::size_t row = 0; row < table.rows(); ++row)
        if (!known[column.codes[row]]) expected[row] = false;
    } else if (!feature.missing_flag) {
      for (std::size_t row = 0; row < table.rows(); ++row)
        if (std::isnan(column.numbers[row])) expected[row] = false;
    }
  }
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (expected[row]) rows.push_back(row);
  return rows;
}

Matrix encode_features(const Table& table, const Encoding& encoding, Unexpected unexpected) {
  if (encoding.feature_count() > kMostValues / table.rows())
    throw DataError(fmt::format("{}: {} rows of {} features are too many; leave out columns with many categories",
                                table.files[0], table.rows(), encoding.feature_count()));
  Matrix out(table.rows(), encoding.feature_count());
  std::size_t at = 0;
  for (const FeatureEncoding& feature : encoding.features) {
    const std::size_t column = column_of(table, feature.column);
    if (feature.kind == ColumnKind::Categorical)
      write_one_hot(table, column, feature.categories, unexpected, out, at);
    else
      write_numeric(table, column, feature.numeric, feature.missing_flag, unexpected, out, at);
    at += feature.width();
  }
  return out;
}

Matrix encode_targets(const Table& table, const Encoding& encoding, bool allow_missing) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  Matrix out(table.rows(), encoding.target_count());
  if (encoding.task == Task::Classification) {
    write_classes(table, column_of(table, encoding.class_column), encoding.classes, allow_missing, out);
    return out;
  }
  for (std::size_t i = 0; i < encoding.targets.size(); ++i) {
    const TargetEncoding& target = encoding.targets[i];
    const std::size_t index = column_of(table, target.column);
    require_kind(table, index, ColumnKind::Numeric);
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const double value = table.columns[index].numbers[row];
      if (std::isnan(value) && !allow_missing)
        throw DataError(fmt::format("{}: the target is missing; --missing-target skip leaves such rows out",
                                    table.place(row, index)));
      out(row, i) = std::isnan(value) ? kNone : scaled_number(table, row, index, {target.mean, 1 / target.sd});
    }
  }
  return out;
}

}  // namespace moxie
