#include "runtime/dump/text_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compiler/support/line_table.h"

namespace moxie {
namespace {

using Lines = std::vector<std::string_view>;

struct Edit {
  char kind;          // ' ', '-' or '+'
  int before, after;  // lines, from 0, that the edit is at
};

/// Texts with more differences than this are shown as one replaced by the other: the search takes their square.
constexpr int kMostEdits = 2000;

/// The frontiers of Myers' greedy search for the shortest list of edits: after d edits, how far each diagonal reaches
/// in `a`.
std::vector<std::vector<int>> search(const Lines& a, const Lines& b) {
  const int n = static_cast<int>(a.size()), m = static_cast<int>(b.size());
  const int most = std::min(n + m, kMostEdits);
  std::vector<std::vector<int>> trace;
  std::vector<int> reach(2 * static_cast<std::size_t>(most) + 3, 0);
  const auto at = [&](int diagonal) -> int& { return reach[static_cast<std::size_t>(diagonal + most + 1)]; };
  for (int d = 0; d <= most; ++d) {
    // Only the diagonals that d edits reach are kept.
    trace.emplace_back(reach.begin() + (most + 1 - d - 1), reach.begin() + (most + 1 + d + 2));
    for (int k = -d; k <= d; k += 2) {
      const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
      int x = down ? at(k + 1) : at(k - 1) + 1;
      while (x < n && x - k < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(x - k)]) ++x;
      at(k) = x;
      if (x >= n && x - k >= m) return trace;
    }
  }
  return {};
}

std::vector<Edit> replace_all(const Lines& a, const Lines& b) {
  std::vector<Edit> edits;
  for (int x = 0; x < static_cast<int>(a.size()); ++x) edits.push_back({'-', x, 0});
  for (int y = 0; y < static_cast<int>(b.size()); ++y) edits.push_back({'+', static_cast<int>(a.size()), y});
  return edits;
}

std::vector<Edit> shortest_edits(const Lines& a, const Lines& b) {
  const auto trace = search(a, b);
  if (trace.empty()) return replace_all(a, b);
  std::vector<Edit> edits;
  int x = static_cast<int>(a.size()), y = static_cast<int>(b.size());
  for (int d = static_cast<int>(trace.size()) - 1; d >= 0; --d) {
    const auto at = [&](int diagonal) {
      return trace[static_cast<std::size_t>(d)][static_cast<std::size_t>(diagonal + d + 1)];
    };
    const int k = x - y;
    const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
    const int from_x = d == 0 ? 0 : down ? at(k + 1) : at(k - 1), from_y = d == 0 ? 0 : from_x - (down ? k + 1 : k - 1);
    while (x > from_x && y > from_y) edits.push_back({' ', --x, --y});
    if (d == 0) break;
    if (down)
      edits.push_back({'+', x, --y});
    else
      edits.push_back({'-', --x, y});
  }
  std::ranges::reverse(edits);
  return edits;
}

}  // namespace

std::string text_diff(std::string_view before, std::string_view after, int context) {
  const Lines a = split_lines(before), b = split_lines(after);
  if (a == b) return {};
  const std::vector<Edit> edits = shortest_edits(a, b);
  std::string text;
  int shown = 0;  // edits before this one are written or left out
  for (int k = 0; k < static_cast<int>(edits.size()); ++k) {
    if (edits[static_cast<std::size_t>(k)].kind == ' ') continue;
    const int first = std::max(shown, k - context);
    if (first > shown || shown == 0)
      text += fmt::format("@@ line {} -> line {}\n", edits[static_cast<std::size_t>(first)].before + 1,
                          edits[static_cast<std::size_t>(first)].after + 1);
    int last = k, quiet = 0;
    while (last + 1 < static_cast<int>(edits.size()) && quiet < 2 * context + 1)
      quiet = edits[static_cast<std::size_t>(++last)].kind == ' ' ? quiet + 1 : 0;
    const int end = last + 1 - std::max(0, quiet - context);
    for (int e = first; e < end; ++e) {
      const Edit& edit = edits[static_cast<std::size_t>(e)];
      text += fmt::format(
          "{}{}\n", edit.kind,
          edit.kind == '+' ? b[static_cast<std::size_t>(edit.after)] : a[static_cast<std::size_t>(edit.before)]);
    }
    shown = end;
    k = end - 1;
  }
  return text;
}

}  // namespace moxie
