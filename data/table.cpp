#include "data/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "compiler/support/error.h"
#include "data/file.h"

namespace moxie {
namespace {

/// A number as a file spells it: also "nan", "inf" and what overflows, which come back not finite. Empty: not a number.
std::optional<double> number_of(std::string_view field) {
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  double value = 0;
  const char* end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) return std::nullopt;
  return error == std::errc() ? value : std::numeric_limits<double>::infinity();
}

/// Numbers come before words, in the order of their values, so that class 2 comes before class 10.
bool comes_before(const std::string& a, const std::string& b) {
  const auto value_of = [](const std::string& name) {
    const std::optional<double> number = number_of(name);
    return number && std::isfinite(*number) ? number : std::nullopt;
  };
  const std::optional<double> first = value_of(a), second = value_of(b);
  if (first.has_value() != second.has_value()) return first.has_value();
  return first && *first != *second ? *first < *second : a < b;
}

bool is_missing(std::string_view field, const TableOptions& options) {
  return field.empty() || std::ranges::find(options.missing, field) != options.missing.end();
}

/// Of a first line with names that are known, or with words above some number. The first of them may be empty, as above
/// the numbers of rows that pandas writes.
bool looks_like_header(const FieldRows& rows, const TableOptions& options) {
  const auto is_known = [&](std::size_t column) { return options.kinds.contains(rows.at(0, column)); };
  for (std::size_t column = 0; column < rows.columns && rows.rows() > 0; ++column) {
    if (is_known(column)) return true;
  }
  if (rows.rows() < 2) return false;
  bool number_below = false;
  for (std::size_t column = 0; column < rows.columns; ++column) {
    const std::string_view name = rows.at(0, column);
    if (column == 0 && name.empty()) continue;
    if (is_missing(name, options) || number_of(name)) return false;
    number_below = number_below || number_of(rows.at(1, column));
  }
  return number_below;
}

class TableBuilder {
 public:
  TableBuilder(const FieldRows& fields, const std::string& file, const TableOptions& options)
      : fields_(fields),
        options_(options),
        first_(options.header.value_or(looks_like_header(fields, options)) ? 1 : 0) {
    table_.files = {file};
    if (fields.rows() <= first_) throw DataError(fmt::format("{}: holds no rows", file));
    for (std::size_t row = first_; row < fields.rows(); ++row) table_.origins.push_back({0, fields.lines[row]});
    table_.columns.resize(fields.columns);
    name_columns();
    choose_kinds();
  }

  Table build() {
    for (std::size_t column = 0; column < fields_.columns; ++column)
      table_.columns[column].kind == ColumnKind::Numeric ? fill_numbers(column) : fill_categories(column);
    return std::move(table_);
  }

 private:
  std::string_view field(std::size_t row, std::size_t column) const { return fields_.at(first_ + row, column); }

  void name_columns() {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < fields_.columns; ++i) {
      std::string& name = table_.columns[i].name;
      if (first_ == 1) name = fields_.at(0, i);
      if (name.empty()) name = fmt::format("column {}", i + 1);
      if (!names.insert(name).second)
        throw DataError(
            fmt::format("{}:{}: two columns have the name '{}'", table_.files[0], fields_.lines[0], excerpt(name)));
    }
  }

  bool is_missing_field(std::string_view text) const { return is_missing(text, options_); }

  void choose_kinds() {
    std::vector<bool> holds_text(fields_.columns, options_.only_known_numbers);
    for (const std::string& selector : options_.texts) holds_text[table_.find(selector)] = true;
    for (std::size_t i = 0; i < fields_.columns; ++i) {
      const auto known = options_.kinds.find(table_.columns[i].name);
      table_.columns[i].kind = known != options_.kinds.end() ? known->second
                               : holds_text[i]               ? ColumnKind::Categorical
                                                             : inferred_kind(i);
    }
    for (const std::string& selector : options_.categorical)
      table_.columns[table_.find(selector)].kind = ColumnKind::Categorical;
  }

  /// The first value decides, so that a word further down is an error and not a reason to make 1,000 categories of
  /// numbers.
  ColumnKind inferred_kind(std::size_t column) const {
    for (std::size_t row = 0; row < table_.rows(); ++row)
      if (!is_missing_field(field(row, column)))
        return number_of(field(row, column)) ? ColumnKind::Numeric : ColumnKind::Categorical;
    return ColumnKind::Categorical;
  }

  void fill_numbers(std::size_t column) {
    std::vector<double>& numbers = table_.columns[column].numbers;
    numbers.reserve(table_.rows());
    for (std::size_t row = 0; row < table_.rows(); ++row) {
      const std::string_view text = field(row, column);
      numbers.push_back(is_missing_field(text) ? std::numeric_limits<double>::quiet_NaN()
                                               : checked_number(row, column));
    }
  }

  double checked_number(std::size_t row, std::size_t column) const {
    const std::string_view text = field(row, column);
    const std::optional<double> number = number_of(text);
    if (!number)
      throw DataError(fmt::format(
          "{0}: '{1}' is not a number; if it stands for a missing value, say --missing '{1}'; if the column "
          "holds categories, say --categorical",
          table_.place(row, column), excerpt(text)));
    if (!std::isfinite(*number))
      throw DataError(fmt::format("{}: '{}' is not a finite number; write {} for a missing value",
                                  table_.place(row, column), excerpt(text), kMissing));
    return *number;
  }

  void fill_categories(std::size_t column) {
    std::unordered_map<std::string_view, std::uint32_t> code_of;
    Column& target = table_.columns[column];
    target.codes.reserve(table_.rows());
    for (std::size_t row = 0; row < table_.rows(); ++row) {
      const std::string_view text = is_missing_field(field(row, column)) ? kMissing : field(row, column);
      const auto [entry, added] = code_of.emplace(text, static_cast<std::uint32_t>(target.categories.size()));
      if (added) target.categories.emplace_back(text);
      target.codes.push_back(entry->second);
    }
    rename_categories(target, [](std::string_view name) { return std::string(name); });
  }

  const FieldRows& fields_;
  const TableOptions& options_;
  std::size_t first_;  // row of values
  Table table_;
};

}  // namespace

std::string Table::place(std::size_t row, std::size_t column) const {
  const std::string& name = columns[column].name;
  const std::string number = fmt::format("column {}", column + 1);
  return fmt::format("{}:{}: {}", files[origins[row].file], origins[row].line,
                     name == number ? number : fmt::format("{} '{}'", number, excerpt(name)));
}

std::optional<std::size_t> Table::find_name(std::string_view name) const {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].name == name) return i;
  return std::nullopt;
}

std::size_t Table::find(std::string_view selector) const {
  if (const std::optional<std::size_t> named = find_name(selector)) return *named;
  std::int64_t number = 0;
  const char* end = selector.data() + selector.size();
  const auto [stop, error] = std::from_chars(selector.data(), end, number);
  const auto count = static_cast<std::int64_t>(columns.size());
  if (error == std::errc() && stop == end && number != 0 && number >= -count && number <= count)
    return static_cast<std::size_t>(number > 0 ? number - 1 : count + number);
  constexpr std::size_t kMostNames = 20;
  std::string known;
  for (std::size_t i = 0; i < std::min(columns.size(), kMostNames); ++i)
    known += fmt::format(" '{}'", excerpt(columns[i].name));
  throw DataError(fmt::format("{}: has no column '{}'; it has {}:{}{}", files[0], excerpt(selector), count, known,
                              columns.size() > kMostNames ? " ..." : ""));
}

Table parse_table(std::string_view text, const std::string& file, const TableOptions& options) {
  const FieldRows fields = split_fields(text, file, options.separator, options.comment_marks);
  return TableBuilder(fields, file, options).build();
}

Table read_table(const std::filesystem::path& path, const TableOptions& options) {
  return parse_table(read_whole_file(path), path.string(), options);
}

Table concatenate(Table above, const Table& below) {
  if (above.columns.size() != below.columns.size())
    throw DataError(fmt::format("{}: has {} columns, but {} has {}", below.files[0], below.columns.size(),
                                above.files[0], above.columns.size()));
  for (std::size_t i = 0; i < above.columns.size(); ++i) {
    Column& target = above.columns[i];
    const Column& source = below.columns[i];
    if (target.name != source.name || target.kind != source.kind)
      throw DataError(fmt::format("{}: column {} '{}' differs in name or kind from '{}' of {}", below.files[0], i + 1,
                                  excerpt(source.name), excerpt(target.name), above.files[0]));
    target.numbers.insert(target.numbers.end(), source.numbers.begin(), source.numbers.end());
    const auto shift = static_cast<std::uint32_t>(target.categories.size());
    for (const std::uint32_t code : source.codes) target.codes.push_back(code + shift);
    target.categories.insert(target.categories.end(), source.categories.begin(), source.categories.end());
    rename_categories(target, [](std::string_view name) { return std::string(name); });
  }
  for (const RowOrigin& origin : below.origins)
    above.origins.push_back({origin.file + above.files.size(), origin.line});
  above.files.insert(above.files.end(), below.files.begin(), below.files.end());
  return above;
}

Table select_rows(const Table& table, std::span<const std::size_t> rows) {
  Table result{table.files, {}, {}, table.targets};
  for (const std::size_t row : rows) result.origins.push_back(table.origins[row]);
  for (const Column& column : table.columns) {
    Column& part = result.columns.emplace_back(Column{column.name, column.kind, {}, {}, {}});
    constexpr auto kUnused = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> code_of(column.categories.size(), kUnused);
    for (const std::size_t row : rows) {
      if (column.kind == ColumnKind::Numeric) part.numbers.push_back(column.numbers[row]);
      if (column.kind == ColumnKind::Categorical) code_of[column.codes[row]] = 0;
    }
    for (std::size_t code = 0; code < code_of.size(); ++code) {
      if (code_of[code] == kUnused) continue;
      code_of[code] = static_cast<std::uint32_t>(part.categories.size());
      part.categories.push_back(column.categories[code]);
    }
    if (column.kind == ColumnKind::Categorical)
      for (const std::size_t row : rows) part.codes.push_back(code_of[column.codes[row]]);
  }
  return result;
}

std::string text_of(const Column& column, std::size_t row) {
  if (column.kind == ColumnKind::Numeric)
    return std::isnan(column.numbers[row]) ? std::string() : fmt::format("{}", column.numbers[row]);
  const std::string& category = column.categories[column.codes[row]];
  return category == kMissing ? std::string() : category;
}

void rename_categories(Column& column, const std::function<std::string(std::string_view)>& rename) {
  std::vector<std::string> renamed;
  for (const std::string& category : column.categories) renamed.push_back(rename(category));
  std::vector<std::string> sorted = renamed;
  std::sort(sorted.begin(), sorted.end(), comes_before);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::uint32_t> code_of;
  for (const std::string& name : renamed)
    code_of.push_back(static_cast<std::uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), name, comes_before) -
                                                 sorted.begin()));
  for (std::uint32_t& code : column.codes) code = code_of[code];
  column.categories = std::move(sorted);
}

}  // namespace moxie
