#pragma once
// Text of rows and columns cut into fields; nothing is interpreted yet.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

enum class Separator : std::uint8_t { Auto, Comma, Semicolon, Blanks };

/// Fields without surrounding blanks and quotes. The views point into the text that was split, or into `unescaped`.
struct FieldRows {
  std::size_t columns = 0;
  std::vector<std::string_view> fields;  // row by row
  std::vector<std::size_t> lines;        // of each row, from 1
  std::deque<std::string> unescaped;

  std::size_t rows() const { return lines.size(); }
  std::string_view at(std::size_t row, std::size_t column) const { return fields[row * columns + column]; }
};

/// Splits text into rows of equally many fields. Empty lines are skipped, and so are lines that begin with one of the
/// `comment_marks`. A field may be quoted ("a ""b"", c"), even over several lines. Throws DataError, naming `file`.
FieldRows split_fields(std::string_view text, const std::string& file, Separator separator,
                       std::string_view comment_marks);

/// Without blanks at both ends.
std::string_view trim(std::string_view text);

/// At most 40 bytes of a field for a message, control characters replaced.
std::string excerpt(std::string_view field);

}  // namespace moxie
