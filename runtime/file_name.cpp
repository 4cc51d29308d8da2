#include "runtime/file_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::size_t kMaximumBytes = 255;  // of a name, in Linux's file systems

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// The name as a message can show it.
std::string shown(std::string_view name) {
  constexpr std::size_t kShown = 80;
  std::string text;
  for (const char c : name.substr(0, kShown))
    text += is_control(c) ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  return text + (name.size() > kShown ? "..." : "");
}

std::string_view problem_of(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name == "." || name == ".." || name.find('/') != name.npos) return "leads out of the folder";
  if (std::ranges::any_of(name, is_control)) return "holds control characters";
  if (name.size() > kMaximumBytes) return "is too long";
  return {};
}

}  // namespace

std::filesystem::path path_inside(const std::filesystem::path& folder, std::string_view name, std::string_view source) {
  if (const std::string_view problem = problem_of(name); !problem.empty())
    throw DataError(fmt::format("{}: the file name '{}' {}; a name of one file in {} is expected", source, shown(name),
                                problem, folder.string()));
  return folder / name;
}

}  // namespace moxie
