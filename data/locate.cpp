#include "data/locate.h"

#include <fmt/format.h>

#include <string>

#include "compiler/support/error.h"

namespace moxie {
namespace fs = std::filesystem;

fs::path locate(const fs::path& data_dir, std::initializer_list<fs::path> folders, std::string_view file,
                std::string_view origin) {
  std::string tried;
  for (const fs::path& folder : folders) {
    for (const std::string_view suffix : {".gz", ""}) {
      const fs::path path = data_dir / folder / (std::string(file) + std::string(suffix));
      std::error_code unreadable;
      if (fs::is_regular_file(path, unreadable)) return path;
      tried += fmt::format("\n  {}", path.string());
    }
  }
  throw DataError(
      fmt::format("cannot find {} or {}.gz; tried{}\nThe data comes from {}; put it into one of these places, or "
                  "give the folder that holds it",
                  file, file, tried, origin));
}

}  // namespace moxie
