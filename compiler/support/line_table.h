#pragma once
// LineTable: which lines of one text were made from which lines of another. Every stage that is text keeps one to the
// stage before it.
#include <cstddef>
#include <string_view>
#include <vector>

namespace moxie {

/// For every line of a text, in order, the lines (from 1) of an earlier text that it was made from.
using LineTable = std::vector<std::vector<int>>;

/// Made while a text is written: what is written between open() and close() was made from some lines of the text before
/// it.
class LineMarks {
 public:
  /// `offset` is the length of the text so far.
  void open(std::size_t offset, std::vector<int> origins);
  void close(std::size_t offset);
  /// Of the whole text, if what was marked begins at `begin` in it.
  LineTable table(std::string_view text, std::size_t begin = 0) const;

 private:
  struct Mark {
    std::size_t offset;
    std::vector<int> origins;
  };
  std::vector<Mark> marks_;
  std::vector<std::vector<int>> open_;
};

/// Lines of a text; a last line without an end counts.
int count_lines(std::string_view text);
/// The lines of a text, without their ends.
std::vector<std::string_view> split_lines(std::string_view text);

}  // namespace moxie
