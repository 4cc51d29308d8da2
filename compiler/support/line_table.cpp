#include "compiler/support/line_table.h"

#include <algorithm>
#include <utility>

namespace moxie {

void LineMarks::open(std::size_t offset, std::vector<int> origins) {
  marks_.push_back({offset, origins});
  open_.push_back(std::move(origins));
}

void LineMarks::close(std::size_t offset) {
  open_.pop_back();
  marks_.push_back({offset, open_.empty() ? std::vector<int>{} : open_.back()});
}

LineTable LineMarks::table(std::string_view text, std::size_t begin) const {
  LineTable table;
  std::size_t next = 0;
  std::size_t offset = 0;
  std::vector<int> origins;
  for (const std::string_view line : split_lines(text)) {
    // Of several marks at one place the last one counts.
    while (next < marks_.size() && marks_[next].offset + begin <= offset) origins = marks_[next++].origins;
    table.push_back(origins);
    offset += line.size() + 1;
  }
  return table;
}

int count_lines(std::string_view text) { return static_cast<int>(split_lines(text).size()); }

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace moxie
