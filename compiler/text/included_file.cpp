#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "compiler/support/error.h"
#include "compiler/text/text_library.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxBytes = std::uintmax_t{4} << 20;

/// Whether `path` lies in `folder` or below; both without links and dots.
bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, in_path] = std::ranges::mismatch(folder, path);
  return in_folder == folder.end() || (std::next(in_folder) == folder.end() && in_folder->empty());
}

std::string text_of(const fs::path& path, std::string_view written) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw DataError(fmt::format("`{}` is no file", written));
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || size > kMaxBytes) throw DataError(fmt::format("`{}` is larger than {} bytes", written, kMaxBytes));
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw DataError(fmt::format("`{}` cannot be read", written));
  return text.str();
}

}  // namespace

IncludedFile read_included(const fs::path& including, std::string_view written, const std::vector<fs::path>& folders) {
  const fs::path relative(written);
  if (relative.empty() || relative.is_absolute())
    throw DataError(fmt::format("`{}` is no path relative to this file", written));
  std::vector<fs::path> places = {including.has_parent_path() ? including.parent_path() : fs::path(".")};
  places.insert(places.end(), folders.begin(), folders.end());
  std::error_code error;
  for (const fs::path& place : places) {
    const fs::path folder = fs::canonical(place, error);
    if (error) continue;
    const fs::path path = fs::canonical(folder / relative, error);
    if (error) continue;
    const auto holds = [&](const fs::path& allowed) {
      std::error_code missing;
      const fs::path known = fs::canonical(allowed, missing);
      return !missing && is_below(path, known);
    };
    if (!std::ranges::any_of(places, holds))
      throw DataError(fmt::format("`{}` lies outside of the folder of this file", written));
    return {path, (place / relative).lexically_normal().string(), text_of(path, written)};
  }
  throw DataError(fmt::format("there is no file `{}` beside this one", written));
}

}  // namespace moxie
