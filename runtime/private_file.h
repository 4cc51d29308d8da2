#pragma once
// Files and folders that belong to this user alone: what others could have written is not read, and no link is
// followed.
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moxie {

/// An open file, closed when this goes; none if negative.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Opens the regular file `name` in the open folder `folder` (AT_FDCWD: a path). The file must belong to this user,
/// nobody else may write to it, and the last part of the name is no link; a new file has mode 0600. `flags` are those
/// of open(). Throws CacheError for a file that others could have written, std::system_error where it cannot be opened.
Descriptor open_private_file(int folder, const std::string& name, int flags);
/// Adds to the end of such a file, which is made if it is absent. Throws as open_private_file().
void append_private_file(const std::filesystem::path& path, std::string_view bytes);

/// A folder of this user alone, held open, so that nobody can exchange it for another between two calls.
class PrivateFolder {
 public:
  using Time = std::chrono::system_clock::time_point;
  struct Item {
    std::string name;
    bool is_folder = false;
    std::size_t bytes = 0;
    Time modified = {};
  };

  /// Opens the folder, which is made with mode 0700 (and the folders around it as usual) if it is not there. Links in
  /// the path are followed: the user chose it. Throws CacheError for a folder of another user or that others may write
  /// to, std::system_error where it cannot be made or opened.
  static PrivateFolder open(const std::filesystem::path& path);
  /// The folder `name` in this one, which is no link; nothing if it is absent. A folder of this user that others can
  /// look into becomes private. Throws as open().
  std::optional<PrivateFolder> find(const std::string& name) const;
  /// The same; makes the folder if it is absent.
  PrivateFolder make(const std::string& name) const;

  /// The whole file; nothing if it is absent. Throws CacheError for a file that others could have written or that is
  /// larger than `limit`, std::system_error where it cannot be read.
  std::optional<std::string> read(const std::string& name, std::size_t limit) const;
  /// The file appears whole or not at all, with mode 0600. It is not flushed to the disk: after a crash of the system
  /// it may be damaged, so that it needs a checksum of its own.
  void write(const std::string& name, std::string_view bytes) const;
  void append(const std::string& name, std::string_view bytes) const;
  /// Marks the file as modified now, unless that is less than `interval` ago. Ignores failures.
  void touch(const std::string& name, std::chrono::seconds interval) const;
  /// Whether there was such a file. Ignores failures.
  bool remove(const std::string& name) const;
  /// Regular files and folders.
  std::vector<Item> list() const;

 private:
  explicit PrivateFolder(Descriptor folder, std::filesystem::path path)
      : folder_(std::move(folder)), path_(std::move(path)) {}
  static PrivateFolder checked(Descriptor folder, const std::filesystem::path& path);
  [[noreturn]] void fail(const char* action, const std::string& name) const;

  Descriptor folder_;
  std::filesystem::path path_;  // for messages
};

/// The whole regular file, whoever it belongs to; nothing if it is absent. Throws std::system_error, also for anything
/// else than a file, and for a file of more than 1 GiB.
std::optional<std::string> read_regular_file(const std::filesystem::path& path);

}  // namespace moxie
