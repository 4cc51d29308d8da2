#pragma once
// CSV-like text as typed columns. Strict: what cannot be understood is an error with file, line, column and text.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/table_fields.h"

namespace moxie {

enum class ColumnKind : std::uint8_t { Numeric, Categorical };

/// The name of a missing value as a category, and how it is written in a file unless options say otherwise. An empty
/// field counts as missing, too.
inline constexpr std::string_view kMissing = "?";

/// One column; of `numbers` and `codes` the one of its kind is filled.
struct Column {
  std::string name;
  ColumnKind kind = ColumnKind::Numeric;
  std::vector<double> numbers;          // finite, or NaN where missing
  std::vector<std::uint32_t> codes;     // into categories
  std::vector<std::string> categories;  // distinct, numbers by value, then words; a missing value is "?"
};

struct RowOrigin {
  std::size_t file;  // into Table::files
  std::size_t line;  // from 1
};

struct Table {
  std::vector<std::string> files;  // one, or more after concatenate()
  std::vector<Column> columns;
  std::vector<RowOrigin> origins;  // of each row
  std::size_t targets = 1;         // so many of the last columns, unless someone chooses others

  std::size_t rows() const { return origins.size(); }
  /// "file:line: column 3 'age'", the place of a value in messages.
  std::string place(std::size_t row, std::size_t column) const;
  std::optional<std::size_t> find_name(std::string_view name) const;
  /// The column with a name, or with a number: from 1, or from -1 for the last. Throws DataError listing the columns.
  std::size_t find(std::string_view selector) const;
};

struct TableOptions {
  Separator separator = Separator::Auto;
  std::optional<bool> header;  // unset: a first row without numbers above a row with some
  std::string comment_marks = "#";
  std::vector<std::string> missing = {std::string(kMissing)};  // how missing values are written
  std::vector<std::string> categorical;  // selectors of columns that hold categories though they look like numbers
  std::vector<std::string> texts;        // selectors of columns that hold any text, unless their kind is known
  bool only_known_numbers = false;       // columns whose kind is not known hold text
  /// By name, for columns whose kind is known; otherwise a column whose first value is a number is numeric.
  std::map<std::string, ColumnKind, std::less<>> kinds;
};

/// Throws DataError.
Table parse_table(std::string_view text, const std::string& file, const TableOptions& options = {});
Table read_table(const std::filesystem::path& path, const TableOptions& options = {});

/// The rows of two tables of the same columns, the second below the first. Throws DataError where they differ.
Table concatenate(Table above, const Table& below);

/// Some of the rows, in the order given, with the categories that these have.
Table select_rows(const Table& table, std::span<const std::size_t> rows);

/// What a file says there; empty for a missing value.
std::string text_of(const Column& column, std::size_t row);

/// Renames the categories of a column; those that get the same name become one.
void rename_categories(Column& column, const std::function<std::string(std::string_view)>& rename);

}  // namespace moxie
