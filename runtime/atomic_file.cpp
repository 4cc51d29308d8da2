#include "runtime/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "compiler/support/error.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view action, int error) {
  throw DataError(fmt::format("cannot write {}: {} failed: {}", path.string(), action,
                              std::error_code(error, std::generic_category()).message()));
}

/// A new file beside `target`, removed again unless it is published.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    static std::atomic<unsigned> count = 0;
    do {  // a name may be taken by what a killed process of the same number left
      path_ = fmt::format("{}.tmp-{}-{}", target.string(), getpid(), count++);
      file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file_ < 0 && errno == EEXIST);
    if (file_ < 0) fail(target_, "creating a file in its folder", errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (file_ >= 0) close(file_);
    if (!published_) unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(target_, "writing", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void publish() {
    if (fsync(file_) != 0) fail(target_, "flushing to the disk", errno);
    if (close(std::exchange(file_, -1)) != 0) fail(target_, "closing", errno);
    if (rename(path_.c_str(), target_.c_str()) != 0) fail(target_, "renaming the finished file", errno);
    published_ = true;
  }

 private:
  fs::path target_;
  std::string path_;
  int file_ = -1;
  bool published_ = false;
};

/// The file behind `path` if that is a symbolic link, so that the link survives.
fs::path resolved(const fs::path& path) {
  std::error_code none;
  const fs::path file = fs::is_symlink(path, none) ? fs::weakly_canonical(path, none) : path;
  return file.empty() ? path : file;
}

}  // namespace

void atomic_write(const fs::path& path, std::span<const std::byte> bytes) {
  const fs::path target = resolved(path);
  // Renaming over a device or a pipe would replace it for everybody.
  std::error_code none;
  if (fs::exists(target, none) && !fs::is_regular_file(target, none))
    throw DataError(fmt::format("cannot write {}: it exists and is not a regular file", path.string()));
  TemporaryFile file(target);
  file.write(bytes);
  file.publish();
}

void atomic_write(const fs::path& path, std::string_view text) { atomic_write(path, std::as_bytes(std::span(text))); }

}  // namespace moxie
