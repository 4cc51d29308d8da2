#pragma once
// KernelCache: compiled kernels on disk, found by the content that they were made from.
//
// One self-checking file per entry, published by a temporary file and a rename, so that any number of processes may
// share a directory without locks, and not flushed: a crash of the system costs entries, which their checksums show.
// Nothing here ever fails a caller: entries that cannot be read are compiled again, entries that cannot be written stay
// in memory, and both are counted. The cache holds code: its folders and files belong to its user alone, no link is
// followed to them, and an entry that others could have written is deleted.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

/// A compiled kernel and what a dump needs to show of it.
struct CacheEntry {
  std::string object;  // machine code: an ELF object, a cubin
  std::string source;  // the text that it was compiled from
  std::string log;     // what the compiler said, if anything
  bool operator==(const CacheEntry&) const = default;
};

struct CacheStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t stored = 0;
  std::int64_t damaged = 0;       // entries that were deleted because they did not check out
  std::int64_t write_errors = 0;  // read-only or full disk
  std::int64_t evicted = 0;
  std::string problem;  // why the directory is not used, or what the first write error was; empty if all is well
};

/// The bytes on disk, for `moxie doctor`.
struct CacheUsage {
  std::int64_t entries = 0;
  std::uintmax_t bytes = 0;
  std::uintmax_t rebuilt = 0;  // damaged entries that processes have come upon so far, and deleted
};

/// An entry on disk, for `moxie cache ls`.
struct CachedFile {
  std::filesystem::path path;
  std::uintmax_t bytes = 0;
  std::chrono::system_clock::time_point last_used = {};
};

/// Any number of threads may call at once; none waits for another's disk or compression.
class KernelCache {
 public:
  static constexpr std::uintmax_t kDefaultLimit = std::uintmax_t{2} << 30;

  /// An empty `directory` gives a cache in memory. Entries unused for the longest time go when their files exceed
  /// `limit` bytes.
  explicit KernelCache(std::filesystem::path directory, std::uintmax_t limit = kDefaultLimit);

  /// `key` is the text that determines the kernel: its source, and the versions and options of all that compiles it.
  std::optional<CacheEntry> find(std::string_view key);
  void store(std::string_view key, const CacheEntry& entry);
  /// Deletes an entry that turned out to be unusable and counts it as damaged.
  void discard(std::string_view key);

  /// Deletes the entries unused for the longest time if all are larger than the limit.
  void shrink();

  CacheStats stats() const;
  CacheUsage usage() const;
  std::vector<CachedFile> files() const;
  /// Where the entry of `key` lies, whether or not it exists.
  std::filesystem::path path_of(std::string_view key) const;
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::optional<CacheEntry> find_in_memory(std::string_view key) const;
  std::optional<CacheEntry> find_on_disk(std::string_view key);
  bool write(const std::string& digest, const CacheEntry& entry);
  void note_problem(const std::string& problem);
  std::string place_of(std::string_view key) const;
  void count_damaged();
  void evict_if_needed(std::uintmax_t added);
  void evict();

  std::filesystem::path directory_;  // empty when there is none, or when it cannot be trusted
  std::uintmax_t limit_;
  bool writable_ = true;
  std::optional<std::uintmax_t> bytes_;          // on disk, by this process's count
  std::map<std::string, CacheEntry> in_memory_;  // entries that could not be written
  CacheStats stats_;
  mutable std::mutex mutex_;  // of the members; never held while a file is touched or a kernel compressed
  std::mutex evicting_;       // held by the thread that lists and deletes files
};

/// $MOXIE_CACHE_DIR, else $XDG_CACHE_HOME/moxie, else ~/.cache/moxie; empty (no cache on disk) where none is set or
/// MOXIE_CACHE_DIR is 0.
std::filesystem::path default_cache_dir();

}  // namespace moxie
