#include "runtime/kernel_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cache_file.h"
#include "runtime/log.h"
#include "runtime/private_file.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntrySuffix = ".kernel";
constexpr std::string_view kTemporaryMark = ".kernel.tmp-";  // as PrivateFolder::write() names its files
constexpr auto kTemporaryLifetime = std::chrono::hours(1);
/// Holds one byte per damaged entry found: appending needs no lock.
constexpr const char* kDamageFile = "damaged";
/// A file's modification time is our stamp of its last use; it is renewed at most this often, so that hits seldom
/// write.
constexpr auto kStampInterval = std::chrono::hours(1);
/// Eviction goes on to this fraction of the limit, so that it is rare.
constexpr double kFractionKept = 0.8;

/// Where an entry lies in the folder of the cache: 256 folders of 256 folders keep listings short.
struct Place {
  std::string outer, inner, file;
};

Place place_of_digest(const std::string& digest) {
  return {digest.substr(0, 2), digest.substr(2, 2), digest + std::string(kEntrySuffix)};
}

/// The folder of an entry; nothing if it is absent.
std::optional<PrivateFolder> find_folder(const fs::path& cache, const Place& place) {
  const auto outer = PrivateFolder::open(cache).find(place.outer);
  return outer ? outer->find(place.inner) : std::nullopt;
}

/// Why the folder cannot be used; empty where it can. Whoever can write to it can run code as this user.
std::string problem_of(const fs::path& directory) {
  try {
    PrivateFolder::open(directory);
    return {};
  } catch (const CacheError& error) {
    return fmt::format("{}; run chmod 700 on a directory of your own, or set MOXIE_CACHE_DIR to one", error.what());
  } catch (const std::exception& error) {
    return error.what();
  }
}

struct StoredFile {
  PrivateFolder::Time last_used;
  std::uintmax_t size;
  Place place;
};

/// Calls visit(folder, outer, inner) for every folder of entries that can be trusted.
template <class Visit>
void visit_folders(const fs::path& directory, const Visit& visit) {
  const auto inside = [](const PrivateFolder& folder, const auto& use) {
    for (const PrivateFolder::Item& item : folder.list()) {
      if (!item.is_folder) continue;
      try {
        if (const auto below = folder.find(item.name)) use(*below, item.name);
      } catch (const std::exception& error) {
        log_info(LogChannel::Cache, "left alone: {}", error.what());
      }
    }
  };
  inside(PrivateFolder::open(directory), [&](const PrivateFolder& outer, const std::string& outer_name) {
    inside(outer,
           [&](const PrivateFolder& inner, const std::string& inner_name) { visit(inner, outer_name, inner_name); });
  });
}

/// The entries below a directory; temporary files of dead processes are removed on the way. Files that vanish meanwhile
/// are skipped.
std::vector<StoredFile> list_entries(const fs::path& directory) {
  std::vector<StoredFile> files;
  const auto now = std::chrono::system_clock::now();
  visit_folders(directory, [&](const PrivateFolder& folder, const std::string& outer, const std::string& inner) {
    for (const PrivateFolder::Item& item : folder.list()) {
      if (item.name.find(kTemporaryMark) != item.name.npos && now - item.modified > kTemporaryLifetime)
        folder.remove(item.name);
      if (item.name.ends_with(kEntrySuffix)) files.push_back({item.modified, item.bytes, {outer, inner, item.name}});
    }
  });
  return files;
}

std::uintmax_t total_size(const std::vector<StoredFile>& files) {
  std::uintmax_t total = 0;
  for (const StoredFile& file : files) total += file.size;
  return total;
}

/// Whether there was such an entry, and it is gone. Ignores failures.
bool remove_entry(const fs::path& directory, const Place& place) {
  try {
    const auto folder = find_folder(directory, place);
    return folder && folder->remove(place.file);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

KernelCache::KernelCache(fs::path directory, std::uintmax_t limit) : directory_(std::move(directory)), limit_(limit) {
  if (directory_.empty()) return;
  stats_.problem = problem_of(directory_);
  if (!stats_.problem.empty()) directory_.clear();
}

fs::path KernelCache::path_of(std::string_view key) const {
  const Place place = place_of_digest(key_digest(key));
  return directory_ / place.outer / place.inner / place.file;
}

std::string KernelCache::place_of(std::string_view key) const {
  return directory_.empty() ? key_digest(key) + " in memory" : path_of(key).string();
}

std::optional<CacheEntry> KernelCache::find(std::string_view key) {
  std::optional<CacheEntry> entry = find_in_memory(key);
  if (!entry && !directory_.empty()) entry = find_on_disk(key);
  {
    const std::scoped_lock lock(mutex_);
    ++(entry ? stats_.hits : stats_.misses);
  }
  log_info(LogChannel::Cache, "{} {}", entry ? "hit" : "miss", place_of(key));
  return entry;
}

std::optional<CacheEntry> KernelCache::find_in_memory(std::string_view key) const {
  const std::scoped_lock lock(mutex_);
  if (in_memory_.empty()) return std::nullopt;
  const auto found = in_memory_.find(key_digest(key));
  return found == in_memory_.end() ? std::nullopt : std::optional(found->second);
}

/// An entry that does not check out, or that others could have written, is deleted; one that cannot be read is left
/// alone, since the fault may lie elsewhere.
std::optional<CacheEntry> KernelCache::find_on_disk(std::string_view key) {
  const std::string digest = key_digest(key);
  const Place place = place_of_digest(digest);
  try {
    const std::optional<PrivateFolder> folder = find_folder(directory_, place);
    if (!folder) return std::nullopt;
    try {
      const auto file = folder->read(place.file, kMaximumEntryFile);
      if (!file) return std::nullopt;
      CacheEntry entry = decode_entry(digest, *file);
      folder->touch(place.file, kStampInterval);
      return entry;
    } catch (const CacheError& error) {
      folder->remove(place.file);
      count_damaged();
      log_info(LogChannel::Cache, "rebuild {}: {}", path_of(key).string(), error.what());
    }
  } catch (const std::exception& error) {
    log_info(LogChannel::Cache, "cannot read {}: {}", path_of(key).string(), error.what());
    note_problem(error.what());
  }
  return std::nullopt;
}

void KernelCache::store(std::string_view key, const CacheEntry& entry) {
  const std::string digest = key_digest(key);
  const auto may_write = [&] {
    const std::scoped_lock lock(mutex_);
    return !directory_.empty() && writable_;
  };
  if (may_write() && write(digest, entry)) return;
  const std::scoped_lock lock(mutex_);
  in_memory_[digest] = entry;
}

/// Whether the entry is on the disk now.
bool KernelCache::write(const std::string& digest, const CacheEntry& entry) {
  const Place place = place_of_digest(digest);
  std::string file;
  try {
    file = encode_entry(digest, entry);
  } catch (const CacheError& error) {
    log_info(LogChannel::Cache, "kept in memory: {}", error.what());
    return false;
  }
  try {
    PrivateFolder::open(directory_).make(place.outer).make(place.inner).write(place.file, file);
  } catch (const std::exception& error) {
    // One failure is enough to know: a full or read-only disk stays so, and every further attempt costs time.
    log_info(LogChannel::Cache, "kept in memory from here on: {}", error.what());
    note_problem(error.what());
    const std::scoped_lock lock(mutex_);
    writable_ = false;
    ++stats_.write_errors;
    return false;
  }
  log_debug(LogChannel::Cache, "stored {}, {} bytes", place.file, file.size());
  evict_if_needed(file.size());
  return true;
}

void KernelCache::note_problem(const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  if (stats_.problem.empty()) stats_.problem = problem;
}

void KernelCache::count_damaged() {
  {
    const std::scoped_lock lock(mutex_);
    ++stats_.damaged;
  }
  if (directory_.empty()) return;
  try {
    PrivateFolder::open(directory_).append(kDamageFile, ".");
  } catch (const std::exception& error) {
    log_info(LogChannel::Cache, "damaged entries are not counted: {}", error.what());
  }
}

void KernelCache::discard(std::string_view key) {
  {
    const std::scoped_lock lock(mutex_);
    in_memory_.erase(key_digest(key));
  }
  if (!directory_.empty()) remove_entry(directory_, place_of_digest(key_digest(key)));
  count_damaged();
  log_info(LogChannel::Cache, "rebuild {}: its code cannot be loaded", place_of(key));
}

void KernelCache::evict_if_needed(std::uintmax_t added) {
  {
    const std::scoped_lock lock(mutex_);
    ++stats_.stored;
    if (bytes_) *bytes_ += added;
    if (bytes_ && *bytes_ <= limit_) return;
  }
  // Another thread that is at it sees this entry too, or the next store finds the limit exceeded again.
  const std::unique_lock turn(evicting_, std::try_to_lock);
  if (turn) evict();
}

/// Counts the bytes on the disk, and deletes entries if they are too many.
void KernelCache::evict() {
  std::vector<StoredFile> files;
  try {
    files = list_entries(directory_);
  } catch (const std::exception& error) {
    return note_problem(error.what());
  }
  std::uintmax_t total = total_size(files);
  const bool is_full = total > limit_;
  std::ranges::sort(files, {}, [](const StoredFile& file) { return std::pair(file.last_used, file.place.file); });
  const auto kept = static_cast<std::uintmax_t>(static_cast<double>(limit_) * kFractionKept);
  std::int64_t evicted = 0;
  for (const StoredFile& file : files) {
    if (!is_full || total <= kept) break;
    if (remove_entry(directory_, file.place)) ++evicted;
    log_debug(LogChannel::Cache, "evicted {}, {} bytes", file.place.file, file.size);
    total -= file.size;
  }
  const std::scoped_lock lock(mutex_);
  stats_.evicted += evicted;
  bytes_ = total;
}

void KernelCache::shrink() {
  if (directory_.empty()) return;
  const std::scoped_lock turn(evicting_);
  evict();
}

std::vector<CachedFile> KernelCache::files() const {
  std::vector<CachedFile> files;
  if (directory_.empty()) return files;
  for (const StoredFile& file : list_entries(directory_))
    files.push_back({directory_ / file.place.outer / file.place.inner / file.place.file, file.size, file.last_used});
  return files;
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
