#include "data/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "compiler/support/error.h"
#include "data/compression.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw DataError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

[[noreturn]] void refuse_size(const fs::path& path, std::size_t max_bytes) {
  throw DataError(fmt::format("{}: is larger than the {} bytes allowed", path.string(), max_bytes));
}

std::string read_bytes(const fs::path& path, std::size_t max_bytes) {
  constexpr std::size_t kReadBytes = 1 << 20;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path, "cannot be opened");
  std::string bytes;
  while (in) {
    const std::size_t old = bytes.size();
    bytes.resize(old + kReadBytes);
    in.read(bytes.data() + old, kReadBytes);
    bytes.resize(old + static_cast<std::size_t>(in.gcount()));
    if (bytes.size() > max_bytes) refuse_size(path, max_bytes);
  }
  if (in.bad()) fail(path, "cannot be read");
  return bytes;
}

}  // namespace

std::string read_whole_file(const fs::path& path, std::size_t max_bytes) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw DataError(fmt::format("{}: is a folder, not a file", path.string()));
  const std::uintmax_t size = fs::file_size(path, ignored);  // of pipes nothing is known beforehand
  if (!ignored && size > max_bytes) refuse_size(path, max_bytes);
  std::string bytes = read_bytes(path, max_bytes);
  return is_gzip(bytes) ? gunzip(bytes, path.string(), decompressed_limit(bytes.size(), max_bytes)) : bytes;
}

}  // namespace moxie
