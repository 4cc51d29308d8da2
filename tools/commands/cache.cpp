// moxie cache: the kernel cache on disk.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "runtime/byte_size.h"
#include "runtime/kernel_cache.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

std::unique_ptr<KernelCache> open_cache(std::uintmax_t limit = KernelCache::kDefaultLimit) {
  const std::filesystem::path directory = default_cache_dir();
  if (directory.empty())
    throw UsageError("there is no cache on disk: MOXIE_CACHE_DIR is 0, or there is no home folder");
  auto cache = std::make_unique<KernelCache>(directory, limit);
  if (const std::string problem = cache->stats().problem; !problem.empty())
    throw CacheError(fmt::format("the cache is not used: {}", problem));
  return cache;
}

double mebibytes(std::uintmax_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::uintmax_t bytes_of(const std::string& text) {
  const auto bytes = byte_size(text);
  if (!bytes) throw UsageError(fmt::format("--limit {0}: {0} is not a size; write 500M or 2G", text));
  return static_cast<std::uintmax_t>(*bytes);
}

/// The most recently used first.
int list() {
  std::vector<CachedFile> files = open_cache()->files();
  std::ranges::sort(files, std::ranges::greater(), &CachedFile::last_used);
  for (const CachedFile& file : files)
    fmt::print("{:%Y-%m-%d %H:%M} {:>10}  {}\n", fmt::localtime(std::chrono::system_clock::to_time_t(file.last_used)),
               file.bytes, file.path.string());
  return 0;
}

int show() {
  const auto cache = open_cache();
  const CacheUsage usage = cache->usage();
  fmt::print("folder     {}\nentries    {}\nsize       {:.1f} MiB of at most {:.0f}\nrebuilt    {}\n",
             cache->directory().string(), usage.entries, mebibytes(usage.bytes), mebibytes(KernelCache::kDefaultLimit),
             usage.rebuilt);
  return 0;
}

int shrink_to(std::uintmax_t limit) {
  const auto cache = open_cache(limit);
  cache->shrink();
  const CacheUsage usage = cache->usage();
  fmt::print("{} entries are deleted; {} are left, {:.1f} MiB\n", cache->stats().evicted, usage.entries,
             mebibytes(usage.bytes));
  return 0;
}

}  // namespace

Work add_cache(OptionParser& parser) {
  parser.require_subcommand();
  const OptionParser ls = parser.add_subcommand("ls", "List the entries, the most recently used first");
  const OptionParser stat = parser.add_subcommand("stat", "Say where the cache is, and how large");
  OptionParser gc = parser.add_subcommand("gc", "Delete what was unused for longest until the rest is small enough");
  const OptionParser clear = parser.add_subcommand("clear", "Delete all entries");
  auto limit = std::make_shared<std::string>("2G");
  gc.add_option("--limit", *limit, "how large the cache may be, such as 500M or 2G").show_default();
  return [=] {
    if (ls.parsed()) return list();
    if (stat.parsed()) return show();
    return shrink_to(clear.parsed() ? 0 : bytes_of(*limit));
  };
}

}  // namespace moxie
