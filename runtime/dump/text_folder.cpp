#include "runtime/dump/text_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "compiler/support/error.h"

namespace moxie {

namespace fs = std::filesystem;

void write_text(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw fs::filesystem_error("write", path, std::error_code(errno, std::generic_category()));
}

bool is_marked_folder(const fs::path& folder, std::string_view mark) {
  std::error_code ignored;
  return fs::exists(folder / mark, ignored);
}

void write_folder(const fs::path& folder, std::string_view mark,
                  const std::function<void(const fs::path& unfinished)>& write) {
  const fs::path unfinished = folder.string() + fmt::format(".tmp-{}", getpid());
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_empty(folder, ignored) && !is_marked_folder(folder, mark))
    throw DataError(
        fmt::format("{} holds something else: there is no {} in it; name another folder", folder.string(), mark));
  try {
    fs::create_directories(unfinished);
    write(unfinished);
    fs::remove_all(folder);
    fs::rename(unfinished, folder);
  } catch (const fs::filesystem_error& error) {
    fs::remove_all(unfinished, ignored);
    throw DataError(
        fmt::format("cannot write the folder {}: {}; name another one", folder.string(), error.code().message()));
  }
}

}  // namespace moxie
