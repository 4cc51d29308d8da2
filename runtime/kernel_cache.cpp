#include "runtime/kernel_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/atomic_file.h"
#include "runtime/cache_file.h"
#include "runtime/log.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntrySuffix = ".kernel";
/// Holds one byte per damaged entry found: appending needs no lock.
constexpr const char* kDamageFile = "damaged";
/// A file's modification time is our stamp of its last use; it is renewed at most this often, so that hits seldom
/// write.
constexpr auto kStampInterval = std::chrono::hours(1);
/// Eviction goes on to this share of the limit, so that it is rare.
constexpr double kShareKept = 0.8;

/// Makes the directory if need be and looks whether it may be trusted: whoever can write to it can run code as this
/// user.
std::string prepare_directory(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) {
    fs::create_directories(directory.parent_path(), error);
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
      return fmt::format("{} cannot be made: {}", directory.string(), std::generic_category().message(errno));
    }
  }
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return fmt::format("{} is no directory", directory.string());
  if (info.st_uid != ::geteuid())
    return fmt::format("{} belongs to another user; set MOXIE_CACHE_DIR to a directory of your own",
                       directory.string());
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("others may write to {}; run chmod 700 on it, or set MOXIE_CACHE_DIR", directory.string());
  }
  return {};
}

void renew_stamp(const fs::path& path) {
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  if (now - fs::last_write_time(path, ignored) > kStampInterval) fs::last_write_time(path, now, ignored);
}

struct StoredFile {
  fs::file_time_type last_used;
  std::uintmax_t size;
  fs::path path;
};

/// The entries below a directory; temporary files of dead processes are removed on the way. Files that vanish meanwhile
/// are skipped.
std::vector<StoredFile> list_entries(const fs::path& directory) {
  std::vector<StoredFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const fs::path& path = it->path();
    std::error_code vanished;
    if (is_abandoned_temporary(path)) fs::remove(path, vanished);
    if (!path.string().ends_with(kEntrySuffix)) continue;
    const auto size = fs::file_size(path, vanished);
    if (vanished) continue;
    const auto last_used = fs::last_write_time(path, vanished);
    if (!vanished) files.push_back({last_used, size, path});
  }
  return files;
}

std::uintmax_t total_size(const std::vector<StoredFile>& files) {
  std::uintmax_t total = 0;
  for (const StoredFile& file : files) total += file.size;
  return total;
}

}  // namespace

KernelCache::KernelCache(fs::path directory, std::uintmax_t limit) : directory_(std::move(directory)), limit_(limit) {
  if (directory_.empty()) return;
  stats_.problem = prepare_directory(directory_);
  if (!stats_.problem.empty()) directory_.clear();
}

fs::path KernelCache::path_of(std::string_view key) const {
  const std::string digest = key_digest(key);
  return directory_ / digest.substr(0, 2) / digest.substr(2, 2) / (digest + std::string(kEntrySuffix));
}

std::string KernelCache::place_of(std::string_view key) const {
  return directory_.empty() ? key_digest(key) + " in memory" : path_of(key).string();
}

std::optional<CacheEntry> KernelCache::find(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  std::optional<CacheEntry> entry;
  if (const auto found = in_memory_.find(key_digest(key)); found != in_memory_.end()) {
    entry = found->second;
  } else if (!directory_.empty()) {
    entry = find_on_disk(key);
  }
  ++(entry ? stats_.hits : stats_.misses);
  log_info(LogChannel::Cache, "{} {}", entry ? "hit" : "miss", place_of(key));
  return entry;
}

/// An entry that does not check out is deleted; one that cannot be read is left alone, since the fault may lie
/// elsewhere.
std::optional<CacheEntry> KernelCache::find_on_disk(std::string_view key) {
  const fs::path path = path_of(key);
  try {
    const auto file = read_file(path);
    if (!file) return std::nullopt;
    CacheEntry entry = decode_entry(key_digest(key), *file);
    renew_stamp(path);
    return entry;
  } catch (const CacheError& error) {
    std::error_code ignored;
    fs::remove(path, ignored);
    count_damaged();
    log_info(LogChannel::Cache, "rebuild {}: {}", path.string(), error.what());
  } catch (const std::exception& error) {
    log_info(LogChannel::Cache, "cannot read {}: {}", path.string(), error.what());
    if (stats_.problem.empty()) stats_.problem = error.what();
  }
  return std::nullopt;
}

void KernelCache::store(std::string_view key, const CacheEntry& entry) {
  const std::string digest = key_digest(key);
  const std::scoped_lock lock(mutex_);
  try {
    if (!directory_.empty() && writable_) {
      const std::string file = encode_entry(digest, entry);
      const fs::path path = path_of(key);
      fs::create_directories(path.parent_path());
      atomic_write(path, file);
      ++stats_.stored;
      log_debug(LogChannel::Cache, "stored {}, {} bytes", path.string(), file.size());
      evict_if_needed(file.size());
      return;
    }
  } catch (const std::exception& error) {
    // One failure is enough to know: a full or read-only disk stays so, and every further attempt costs time.
    writable_ = false;
    ++stats_.write_errors;
    log_info(LogChannel::Cache, "kept in memory from here on: {}", error.what());
    if (stats_.problem.empty()) stats_.problem = error.what();
  }
  in_memory_[digest] = entry;
}

void KernelCache::count_damaged() {
  ++stats_.damaged;
  if (!directory_.empty()) std::ofstream(directory_ / kDamageFile, std::ios::app) << '.';
}

void KernelCache::discard(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  in_memory_.erase(key_digest(key));
  std::error_code ignored;
  if (!directory_.empty()) fs::remove(path_of(key), ignored);
  count_damaged();
  log_info(LogChannel::Cache, "rebuild {}: its code cannot be loaded", place_of(key));
}

void KernelCache::evict_if_needed(std::uintmax_t added) {
  if (bytes_) {
    *bytes_ += added;
  } else {
    bytes_ = total_size(list_entries(directory_));
  }
  if (*bytes_ > limit_) evict();
}

void KernelCache::evict() {
  std::vector<StoredFile> files = list_entries(directory_);
  std::ranges::sort(files, {}, [](const StoredFile& file) { return std::pair(file.last_used, file.path); });
  const auto kept = static_cast<std::uintmax_t>(static_cast<double>(limit_) * kShareKept);
  std::uintmax_t total = total_size(files);
  for (const StoredFile& file : files) {
    if (total <= kept) break;
    std::error_code ignored;
    if (fs::remove(file.path, ignored)) ++stats_.evicted;
    log_debug(LogChannel::Cache, "evicted {}, {} bytes", file.path.string(), file.size);
    total -= file.size;
  }
  bytes_ = total;
}

CacheStats KernelCache::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

CacheUsage KernelCache::usage() const {
  if (directory_.empty()) return {};
  const auto files = list_entries(directory_);
  std::error_code none;
  const std::uintmax_t rebuilt = fs::file_size(directory_ / kDamageFile, none);
  return {static_cast<std::int64_t>(files.size()), total_size(files), none ? 0 : rebuilt};
}

std::int64_t KernelCache::clear() {
  const std::scoped_lock lock(mutex_);
  in_memory_.clear();
  std::int64_t removed = 0;
  if (directory_.empty()) return removed;
  for (const StoredFile& file : list_entries(directory_)) {
    std::error_code ignored;
    removed += fs::remove(file.path, ignored) ? 1 : 0;
  }
  bytes_ = 0;
  return removed;
}

fs::path default_cache_dir() {
  if (const std::string chosen = switch_value("MOXIE_CACHE_DIR"); !chosen.empty())
    return chosen == "0" ? fs::path() : fs::path(chosen);
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return fs::path(xdg) / "moxie";
  if (const std::string home = variable("HOME"); !home.empty()) return fs::path(home) / ".cache" / "moxie";
  return {};
}

}  // namespace moxie
