#include "compiler/text/source_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/support/utf8.h"

namespace moxie {
namespace {

constexpr std::size_t kShownBefore = 80;  // of the source line, left and right of the caret
constexpr std::size_t kShownAfter = 40;

/// A part of a line as a terminal shows it: one place for each character, spaces for what is none.
std::string shown_part(std::string_view part) {
  std::string shown;
  while (!part.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(part));
    const auto first = static_cast<unsigned char>(part[0]);
    const bool is_control = length == 1 ? first < ' ' || first >= 0x7f : first == 0xc2 && part[1] < '\xa0';
    shown += is_control ? " " : part.substr(0, length);
    part.remove_prefix(length);
  }
  return shown;
}

std::size_t characters_in(std::string_view part) {
  std::size_t count = 0;
  for (; !part.empty(); ++count) part.remove_prefix(std::max<std::size_t>(1, utf8_length(part)));
  return count;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// The edit distance between two names, whatever their case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

int SourceText::line_of(std::size_t offset) const {
  return 1 + static_cast<int>(std::ranges::count(text_.substr(0, offset), '\n'));
}

std::size_t SourceText::line_begin(std::size_t offset) const {
  const std::size_t before = offset == 0 ? std::string_view::npos : text_.rfind('\n', offset - 1);
  return before == std::string_view::npos ? 0 : before + 1;
}

ErrorDetails SourceText::details(std::size_t offset, const std::string& message, const std::string& hint) const {
  offset = std::min(offset, text_.size());
  const auto column = static_cast<int>(offset - line_begin(offset) + 1);
  return {.problem = message, .remedy = hint, .file = file_, .line = line_of(offset), .column = column};
}

std::string SourceText::describe(std::size_t offset, const std::string& message, const std::string& hint) const {
  offset = std::min(offset, text_.size());
  const std::size_t line_begin = this->line_begin(offset);
  const std::size_t line_end = std::min(text_.find('\n', offset), text_.size());
  const std::size_t shown_begin = std::max(line_begin, offset - std::min(offset, kShownBefore));
  const std::size_t shown_end = std::min(line_end, offset + kShownAfter);
  const std::string_view before = text_.substr(shown_begin, offset - shown_begin);
  const std::string shown = shown_part(before) + shown_part(text_.substr(offset, shown_end - offset));
  std::string result = fmt::format("{}:{}:{}: {}\n  {}\n  {}^", file_, line_of(offset), offset - line_begin + 1,
                                   message, shown, std::string(characters_in(before), ' '));
  if (!hint.empty()) result += "\n  " + hint;
  return result;
}

std::string did_you_mean(std::string_view unknown, const std::vector<std::string>& known) {
  constexpr std::size_t kMostNames = 3;
  const std::size_t tolerance = std::max<std::size_t>(1, unknown.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> close;
  for (const std::string& name : known) {
    const std::size_t longer = std::max(name.size(), unknown.size());
    if (longer - std::min(name.size(), unknown.size()) > tolerance) continue;
    const std::size_t distance = edit_distance(unknown, name);
    if (distance <= tolerance && distance < longer) close.emplace_back(distance, name);
  }
  std::ranges::sort(close);
  std::string result;
  for (std::size_t i = 0; i < std::min(close.size(), kMostNames); ++i) {
    result += fmt::format("{}`{}`", i == 0 ? "did you mean " : " or ", close[i].second);
  }
  return result.empty() ? result : result + "?";
}

}  // namespace moxie
