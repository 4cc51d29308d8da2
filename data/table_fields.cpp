#include "data/table_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string without_quoted_parts(std::string_view line) {
  std::string plain;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (!quoted) plain.push_back(c);
  }
  return plain;
}

/// A semicolon beats a comma, which may be a decimal comma or stand in a text.
char detect_separator(std::string_view line) {
  const std::string plain = without_quoted_parts(line);
  for (const char candidate : {';', ','})
    if (plain.find(candidate) != std::string::npos) return candidate;
  return ' ';
}

char separator_char(Separator separator, std::string_view first_line) {
  switch (separator) {
    case Separator::Comma:
      return ',';
    case Separator::Semicolon:
      return ';';
    case Separator::Blanks:
      return ' ';
    case Separator::Auto:
      break;
  }
  return detect_separator(first_line);
}

class FieldReader {
 public:
  FieldReader(std::string_view text, const std::string& file, Separator separator, std::string_view comment_marks)
      : rest_(text), file_(file), comment_marks_(comment_marks) {
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
    skip_ignored_lines();
    separator_ = separator_char(separator, current_line());
  }

  FieldRows read() {
    while (!rest_.empty()) {
      read_row();
      skip_ignored_lines();
    }
    return std::move(rows_);
  }

 private:
  std::string_view current_line() const { return rest_.substr(0, rest_.find('\n')); }

  void advance(std::size_t count) {
    line_ +=
        static_cast<std::size_t>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
    rest_.remove_prefix(count);
  }

  void skip_ignored_lines() {
    while (!rest_.empty()) {
      const std::string_view line = trim(current_line());
      if (!line.empty() && comment_marks_.find(line.front()) == std::string_view::npos) return;
      advance(std::min(current_line().size() + 1, rest_.size()));
    }
  }

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size())); }
  bool at_line_end() const { return rest_.empty() || rest_.front() == '\n'; }

  void read_row() {
    const std::size_t line = line_, before = rows_.fields.size();
    skip_blanks();
    do {
      rows_.fields.push_back(!rest_.empty() && rest_.front() == '"' ? quoted_field() : plain_field());
    } while (next_field());
    advance(rest_.empty() ? 0 : 1);
    const std::size_t columns = rows_.fields.size() - before;
    if (rows_.lines.empty()) rows_.columns = columns;
    if (columns != rows_.columns)
      throw DataError(fmt::format("{}:{}: the row has {} columns, but the one of line {} has {}", file_, line, columns,
                                  rows_.lines.front(), rows_.columns));
    rows_.lines.push_back(line);
  }

  /// Steps over what separates two fields; false at the end of the row.
  bool next_field() {
    skip_blanks();
    if (at_line_end()) return false;
    if (separator_ != ' ') rest_.remove_prefix(1);
    skip_blanks();
    return true;
  }

  std::string_view plain_field() {
    const std::string_view line = current_line();
    const std::size_t end = separator_ == ' ' ? line.find_first_of(kBlanks) : line.find(separator_);
    const std::string_view field = line.substr(0, end);
    rest_.remove_prefix(field.size());
    return trim(field);
  }

  std::string_view quoted_field() {
    const std::size_t line = line_;
    std::string content;
    for (bool open = true; open;) {
      rest_.remove_prefix(1);
      const std::size_t end = rest_.find('"');
      if (end == std::string_view::npos)
        throw DataError(fmt::format("{}:{}: the quoted field '{}' has no end", file_, line, excerpt(rest_)));
      content += rest_.substr(0, end);
      advance(end + 1);
      open = !rest_.empty() && rest_.front() == '"';
      if (open) content += '"';
    }
    skip_blanks();
    const bool separated = at_line_end() || separator_ == ' ' || rest_.front() == separator_;
    if (!separated)
      throw DataError(fmt::format("{}:{}: '{}' follows the quoted field '{}'; a separator must", file_, line,
                                  excerpt(current_line()), excerpt(content)));
    return rows_.unescaped.emplace_back(std::move(content));
  }

  std::string_view rest_;
  const std::string& file_;
  std::string_view comment_marks_;
  char separator_ = ' ';
  std::size_t line_ = 1;
  FieldRows rows_;
};

}  // namespace

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

FieldRows split_fields(std::string_view text, const std::string& file, Separator separator,
                       std::string_view comment_marks) {
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) throw DataError(fmt::format("{}: is not text: byte {} is zero", file, zero));
  return FieldReader(text, file, separator, comment_marks).read();
}

std::string excerpt(std::string_view field) {
  constexpr std::size_t kLongest = 40;
  std::string text(field.substr(0, kLongest));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return field.size() > kLongest ? text + "..." : text;
}

}  // namespace moxie
