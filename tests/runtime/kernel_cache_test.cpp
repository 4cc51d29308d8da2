#include "runtime/kernel_cache.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cache_file.h"
#include "runtime/temporary_folder.h"

using namespace moxie;
namespace fs = std::filesystem;

namespace {

CacheEntry entry(const std::string& mark) { return {"object " + mark, "source " + mark, "log " + mark}; }

/// Entries that do not compress, so that sizes are known.
CacheEntry noise(std::uint64_t seed, std::size_t size) {
  CacheEntry result;
  for (std::size_t i = 0; i < size; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    result.object += static_cast<char>(seed >> 56);
  }
  return result;
}

void age(const fs::path& path, int hours) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void overwrite(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace

TEST_CASE("what is stored is found, by this process and by the next") {
  const TemporaryFolder dir;
  KernelCache cache(dir.path() / "kernels");
  CHECK_FALSE(cache.find("key"));
  cache.store("key", entry("a"));
  CHECK(cache.find("key") == entry("a"));
  CHECK(KernelCache(dir.path() / "kernels").find("key") == entry("a"));
  CHECK_FALSE(cache.find("other key"));
  CHECK(cache.stats().hits == 1);
  CHECK(cache.stats().misses == 2);
  CHECK(cache.usage().entries == 1);
  CHECK(cache.clear() == 1);
  CHECK_FALSE(cache.find("key"));
}

TEST_CASE("the directory is for its user only") {
  const TemporaryFolder dir;
  const KernelCache cache(dir.path() / "a" / "b");
  struct stat info{};
  REQUIRE(::stat((dir.path() / "a" / "b").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);

  ::chmod((dir.path() / "a" / "b").c_str(), 0777);
  KernelCache refused(dir.path() / "a" / "b");
  CHECK(refused.stats().problem.find("others may write") != std::string::npos);
  refused.store("key", entry("a"));
  CHECK(refused.find("key") == entry("a"));
  CHECK(fs::is_empty(dir.path() / "a" / "b"));
}

TEST_CASE("a damaged entry is deleted, counted and stored anew") {
  const TemporaryFolder dir;
  KernelCache cache(dir.path());
  cache.store("key", entry("a"));
  const fs::path path = cache.path_of("key");
  const std::string whole = content(path);
  std::int64_t damaged = 0;
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ 0x10);
    overwrite(path, changed);
    CHECK_FALSE(cache.find("key"));
    CHECK(cache.stats().damaged == ++damaged);
    CHECK_FALSE(fs::exists(path));
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    overwrite(path, whole.substr(0, size));
    CHECK_FALSE(cache.find("key"));
  }
  cache.store("key", entry("b"));
  CHECK(cache.find("key") == entry("b"));
}

TEST_CASE("an entry under a foreign name is not taken for its own") {
  const TemporaryFolder dir;
  KernelCache cache(dir.path());
  cache.store("key", entry("a"));
  fs::create_directories(cache.path_of("other").parent_path());
  fs::copy_file(cache.path_of("key"), cache.path_of("other"));
  CHECK_FALSE(cache.find("other"));
  CHECK(cache.stats().damaged == 1);
}

TEST_CASE("absurd lengths are refused before memory is had for them") {
  CacheEntry large = entry("a");
  std::string file = encode_entry(key_digest("key"), large);
  CHECK(decode_entry(key_digest("key"), file) == large);
  CHECK_THROWS_AS(decode_entry(key_digest("key"), std::string(4096, '\xFF')), CacheError);
}

TEST_CASE("where nothing can be written the cache goes on in memory") {
  const TemporaryFolder dir;
  overwrite(dir.path() / "file", "in the way");
  KernelCache cache(dir.path() / "file" / "kernels");
  CHECK_FALSE(cache.stats().problem.empty());
  cache.store("key", entry("a"));
  CHECK(cache.find("key") == entry("a"));

  KernelCache full(dir.path() / "full");
  overwrite(full.path_of("key").parent_path().parent_path(), "in the way of the fan-out");
  full.store("key", entry("a"));
  full.store("key2", entry("b"));
  CHECK(full.stats().write_errors == 1);
  CHECK(full.find("key") == entry("a"));
  CHECK(full.find("key2") == entry("b"));

  KernelCache memory{fs::path()};
  memory.store("key", entry("a"));
  CHECK(memory.find("key") == entry("a"));
  CHECK(memory.stats().problem.empty());
}

TEST_CASE("the entries unused for the longest time go first") {
  const TemporaryFolder dir;
  constexpr std::size_t kSize = 10000;
  KernelCache cache(dir.path(), 4 * kSize);
  for (const char* key : {"a", "b", "c"}) cache.store(key, noise(static_cast<std::uint64_t>(*key), kSize));
  age(cache.path_of("a"), 30);
  age(cache.path_of("b"), 50);
  age(cache.path_of("c"), 40);
  const fs::path abandoned = cache.path_of("a").string() + ".tmp-1-1", fresh = cache.path_of("a").string() + ".tmp-1-2";
  overwrite(abandoned, "half"), overwrite(fresh, "half");
  age(abandoned, 2);
  CHECK(cache.find("b"));  // used just now
  cache.store("d", noise(4, kSize));
  CHECK(cache.stats().evicted == 1);
  CHECK_FALSE(fs::exists(cache.path_of("c")));
  CHECK(cache.find("a"));
  CHECK(cache.find("b"));
  CHECK(cache.find("d"));
  CHECK_FALSE(fs::exists(abandoned));
  CHECK(fs::exists(fresh));
}

TEST_CASE("threads and processes store and find at once") {
  const TemporaryFolder dir;
  const auto work = [&](KernelCache& cache) {
    for (int i = 0; i < 20; ++i) {
      const std::string key = "key" + std::to_string(i % 4);
      if (const auto found = cache.find(key); found && *found != entry(key)) return false;
      cache.store(key, entry(key));
    }
    return true;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    KernelCache cache(dir.path());
    ::_exit(work(cache) ? 0 : 1);
  }
  KernelCache shared(dir.path()), own(dir.path());
  bool good[3] = {};
  {
    std::jthread a([&] { good[0] = work(shared); }), b([&] { good[1] = work(shared); });
    good[2] = work(own);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((good[0] && good[1] && good[2]));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(shared.stats().damaged + own.stats().damaged == 0);
  CHECK(shared.usage().entries == 4);
}

TEST_CASE("the default directory") {
  ::setenv("HOME", "/home/user", 1);
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("MOXIE_CACHE_DIR");
  CHECK(default_cache_dir() == "/home/user/.cache/moxie");
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  CHECK(default_cache_dir() == "/xdg/moxie");
  ::setenv("MOXIE_CACHE_DIR", "/chosen", 1);
  CHECK(default_cache_dir() == "/chosen");
  ::setenv("MOXIE_CACHE_DIR", "0", 1);
  CHECK(default_cache_dir().empty());
}
