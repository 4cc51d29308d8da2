#include "runtime/temporary_folder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "compiler/support/error.h"

namespace moxie {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string name = (parent / "moxie-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) {
    throw DeviceError(fmt::format("no temporary folder {}: {}; set TMPDIR to a folder that can be written", name,
                                  error ? error.message() : std::strerror(errno)));
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_text_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DeviceError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    throw DeviceError(fmt::format("{}: {}; set TMPDIR to a folder with room", path.string(), std::strerror(errno)));
}

}  // namespace moxie
