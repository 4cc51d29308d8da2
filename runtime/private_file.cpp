#include "runtime/private_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <system_error>

#include "compiler/support/error.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;
constexpr mode_t kOpenToOthers = S_IRWXG | S_IRWXO;
constexpr std::size_t kMaximumFile = std::size_t{1} << 30;

[[noreturn]] void fail_with(int error, const char* action, const fs::path& path) {
  throw std::system_error(error, std::generic_category(), fmt::format("cannot {} {}", action, path.string()));
}

struct stat status_of(const Descriptor& file, const fs::path& path) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) fail_with(errno, "inspect", path);
  return info;
}

void require_own(const struct stat& info, const fs::path& path) {
  if (info.st_uid != ::geteuid()) throw CacheError(fmt::format("{} belongs to another user", path.string()));
}

void require_unshared(const struct stat& info, const fs::path& path) {
  if ((info.st_mode & kWritableByOthers) != 0) throw CacheError(fmt::format("others may write to {}", path.string()));
}

std::string read_all(const Descriptor& file, std::size_t size, const fs::path& path) {
  std::string bytes(size, '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with(errno, "read", path);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

void write_all(const Descriptor& file, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with(errno, "write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

PrivateFolder::Time modified_at(const struct stat& info) {
  const auto since = std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec);
  return PrivateFolder::Time(std::chrono::duration_cast<PrivateFolder::Time::duration>(since));
}

bool is_absence(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor open_private_file(int folder, const std::string& name, int flags) {
  // Without O_NONBLOCK a pipe in the file's place would hold the caller for ever.
  Descriptor file(::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (file.get() < 0 && errno == ELOOP) throw CacheError(fmt::format("{} is a link, not a file", name));
  if (file.get() < 0) fail_with(errno, "open", name);
  const struct stat info = status_of(file, name);
  if (!S_ISREG(info.st_mode)) throw CacheError(fmt::format("{} is no regular file", name));
  require_own(info, name);
  require_unshared(info, name);
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (writes && info.st_nlink != 1) throw CacheError(fmt::format("{} has a second name elsewhere", name));
  return file;
}

void append_private_file(const fs::path& path, std::string_view bytes) {
  write_all(open_private_file(AT_FDCWD, path.string(), O_WRONLY | O_APPEND | O_CREAT), bytes, path);
}

PrivateFolder PrivateFolder::checked(Descriptor folder, const fs::path& path) {
  require_own(status_of(folder, path), path);
  return PrivateFolder(std::move(folder), path);
}

PrivateFolder PrivateFolder::open(const fs::path& path) {
  const auto attempt = [&] { return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); };
  Descriptor folder = attempt();
  if (folder.get() < 0 && errno == ENOENT) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail_with(errno, "make", path);
    folder = attempt();
  }
  if (folder.get() < 0) fail_with(errno, "open the folder", path);
  PrivateFolder result = checked(std::move(folder), path);
  require_unshared(status_of(result.folder_, path), path);
  return result;
}

std::optional<PrivateFolder> PrivateFolder::find(const std::string& name) const {
  Descriptor folder(::openat(folder_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0 && errno == ENOENT) return std::nullopt;
  if (folder.get() < 0 && (errno == ELOOP || errno == ENOTDIR))
    throw CacheError(fmt::format("{} is a link or a file, not a folder; remove it", (path_ / name).string()));
  if (folder.get() < 0) fail("open the folder", name);
  PrivateFolder result = checked(std::move(folder), path_ / name);
  const bool open = (status_of(result.folder_, result.path_).st_mode & kOpenToOthers) != 0;
  if (open && ::fchmod(result.folder_.get(), S_IRWXU) != 0) fail("make private", name);
  return result;
}

PrivateFolder PrivateFolder::make(const std::string& name) const {
  if (::mkdirat(folder_.get(), name.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail("make", name);
  if (auto folder = find(name)) return std::move(*folder);
  fail_with(ENOENT, "open the folder", path_ / name);
}

std::optional<std::string> PrivateFolder::read(const std::string& name, std::size_t limit) const {
  try {
    const Descriptor file = open_private_file(folder_.get(), name, O_RDONLY);
    const auto size = static_cast<std::size_t>(status_of(file, path_ / name).st_size);
    if (size > limit)
      throw CacheError(fmt::format("{} has {} bytes; at most {} are read", (path_ / name).string(), size, limit));
    return read_all(file, size, path_ / name);
  } catch (const std::system_error& error) {
    if (is_absence(error.code().value())) return std::nullopt;
    throw;
  }
}

void PrivateFolder::write(const std::string& name, std::string_view bytes) const {
  static std::atomic<unsigned> count = 0;
  std::string temporary;
  Descriptor file;
  do {  // a name may be taken by what a killed process of the same number left
    temporary = fmt::format("{}.tmp-{}-{}", name, ::getpid(), count++);
    file = Descriptor(::openat(folder_.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  } while (file.get() < 0 && errno == EEXIST);
  if (file.get() < 0) fail("make a file in the folder of", name);
  try {
    write_all(file, bytes, path_ / name);
    if (::renameat(folder_.get(), temporary.c_str(), folder_.get(), name.c_str()) != 0) fail("rename", name);
  } catch (...) {
    remove(temporary);
    throw;
  }
}

void PrivateFolder::append(const std::string& name, std::string_view bytes) const {
  write_all(open_private_file(folder_.get(), name, O_WRONLY | O_APPEND | O_CREAT), bytes, path_ / name);
}

void PrivateFolder::touch(const std::string& name, std::chrono::seconds interval) const {
  struct stat info{};
  if (::fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (std::chrono::system_clock::now() - modified_at(info) < interval) return;
  ::utimensat(folder_.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

bool PrivateFolder::remove(const std::string& name) const { return ::unlinkat(folder_.get(), name.c_str(), 0) == 0; }

std::vector<PrivateFolder::Item> PrivateFolder::list() const {
  // The stream takes over its descriptor and moves the position in it, so it gets its own.
  const int own = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) fail("list", ".");
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own), ::closedir);
  std::vector<Item> items;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    struct stat info{};
    if (name == "." || name == ".." || ::fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) continue;
    items.push_back({name, S_ISDIR(info.st_mode), static_cast<std::size_t>(info.st_size), modified_at(info)});
  }
  return items;
}

void PrivateFolder::fail(const char* action, const std::string& name) const {
  const int error = errno;
  fail_with(error, action, path_ / name);
}

std::optional<std::string> read_regular_file(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0 && is_absence(errno)) return std::nullopt;
  if (file.get() < 0) fail_with(errno, "open", path);
  const struct stat info = status_of(file, path);
  if (!S_ISREG(info.st_mode)) fail_with(S_ISDIR(info.st_mode) ? EISDIR : EINVAL, "read", path);
  if (static_cast<std::size_t>(info.st_size) > kMaximumFile) fail_with(EFBIG, "read", path);
  return read_all(file, static_cast<std::size_t>(info.st_size), path);
}

}  // namespace moxie
