#include "runtime/kernel_cache.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cache_file.h"
#include "runtime/temporary_folder.h"
#include "tests/skip.h"

using namespace moxie;
namespace fs = std::filesystem;

namespace {

/// What the runtime's calls of the system do besides: tests look at them from here.
std::function<void()> on_rename, on_stamp;
std::atomic<int> flushes = 0;

}  // namespace

extern "C" {
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  if (on_rename) on_rename();
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}
int utimensat(int folder, const char* file, const struct timespec* times, int flags) noexcept {
  if (on_stamp) on_stamp();
  return static_cast<int>(::syscall(SYS_utimensat, folder, file, times, flags));
}
int fsync(int) {
  ++flushes;
  return 0;
}
}

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

TEST_CASE("folders and files are for their user only, whatever the umask") {
  const TemporaryFolder dir;
  const mode_t before = ::umask(0);
  KernelCache cache(dir.path() / "kernels");
  cache.store("key", entry("a"));
  overwrite(cache.path_of("key"), "damaged"), cache.find("key");
  cache.store("key", entry("a"));
  ::umask(before);
  for (const auto& item : fs::recursive_directory_iterator(dir.path() / "kernels")) {
    CAPTURE(item.path());
    CHECK((item.status().permissions() & fs::perms::all) ==
          (item.is_directory() ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write));
  }
}

namespace {

void check_refused_entry(KernelCache& cache, const std::function<void()>& spoil) {
  cache.store("key", entry("a"));
  spoil();
  const std::int64_t damaged = cache.stats().damaged;
  CHECK_FALSE(cache.find("key"));
  CHECK(cache.stats().damaged == damaged + 1);
  CHECK_FALSE(fs::exists(fs::symlink_status(cache.path_of("key"))));
}

/// Both folders of a cache that is made in `place`, each spoilt once.
void check_refused_folders(const fs::path& place, const std::function<void(const fs::path&)>& spoil) {
  KernelCache(place).store("key", entry("a"));
  const fs::path inner = KernelCache(place).path_of("key").parent_path();
  for (const fs::path& folder : {inner, inner.parent_path()}) {
    CAPTURE(folder);
    spoil(folder);
    KernelCache spoilt(place);
    CHECK_FALSE(spoilt.find("key"));
    CHECK_FALSE(spoilt.stats().problem.empty());
    spoilt.store("key", entry("b"));
    CHECK(spoilt.find("key") == entry("b"));
    CHECK_FALSE(KernelCache(place).find("key"));
  }
}

}  // namespace

TEST_CASE("an entry that others could have written is not run, but deleted and stored anew") {
  const TemporaryFolder dir;
  KernelCache cache(dir.path());
  const fs::path path = cache.path_of("key"), elsewhere = dir.path() / "elsewhere";
  const auto refuses = [&](const std::function<void()>& spoil) { check_refused_entry(cache, spoil); };
  refuses([&] { ::chmod(path.c_str(), 0620); });
  refuses([&] { ::chmod(path.c_str(), 0602); });
  refuses([&] { fs::rename(path, elsewhere), fs::create_symlink(elsewhere, path); });
  CHECK(fs::exists(elsewhere));
  refuses([&] { fs::remove(path), ::mkfifo(path.c_str(), 0600); });
  cache.store("key", entry("b"));
  CHECK(cache.find("key") == entry("b"));
}

TEST_CASE("a folder of entries that is a link is not used") {
  const TemporaryFolder dir;
  check_refused_folders(dir.path() / "links", [&](const fs::path& folder) {
    const fs::path elsewhere = dir.path() / ("elsewhere" + folder.filename().string());
    fs::rename(folder, elsewhere);
    fs::create_symlink(elsewhere, folder);
  });
  KernelCache cache(dir.path() / "open");
  cache.store("key", entry("a"));
  const fs::path inner = cache.path_of("key").parent_path();
  ::chmod(inner.c_str(), 0777);
  CHECK(cache.find("key") == entry("a"));
  CHECK((fs::status(inner).permissions() & fs::perms::all) == fs::perms::owner_all);
}

TEST_CASE("entries and folders of another user are not used" * doctest::test_suite("root")) {
  if (::geteuid() != 0) {
    test::skip("only root can give files to another user");
    return;
  }
  const TemporaryFolder dir;
  KernelCache cache(dir.path() / "entries");
  const fs::path path = cache.path_of("key");
  check_refused_entry(cache, [&] { CHECK(::chown(path.c_str(), 12345, 12345) == 0); });
  check_refused_folders(dir.path() / "folders",
                        [](const fs::path& folder) { CHECK(::chown(folder.c_str(), 12345, 1) == 0); });
}

TEST_CASE("nothing is flushed, and nobody waits for another's disk") {
  const TemporaryFolder dir;
  KernelCache cache(dir.path());
  int answers = 0;
  const auto ask_elsewhere = [&] {
    auto answer = std::async(std::launch::async, [&] { return cache.stats().misses; });
    if (answer.wait_for(std::chrono::seconds(10)) == std::future_status::ready)
      ++answers;
    else
      std::_Exit(1);  // a lock is held, so that this would never end
  };
  on_rename = ask_elsewhere;
  cache.store("key", entry("a"));
  on_rename = {};
  CHECK(answers == 1);
  age(cache.path_of("key"), 2);
  on_stamp = ask_elsewhere;
  CHECK(cache.find("key") == entry("a"));
  on_stamp = {};
  CHECK(answers == 2);
  CHECK(flushes == 0);
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
  // With a right checksum: the lengths of the object, the source and the log begin at byte 48.
  constexpr std::size_t kSizes = 48, kChecksum = 80, kHeader = 88;
  for (const std::uint64_t claimed :
       {std::uint64_t{1} << 16, std::uint64_t{1} << 30, ~std::uint64_t{0}, ~std::uint64_t{0} - 20}) {
    for (const std::size_t part : {0, 8, 16}) {
      std::string bomb = file;
      std::memcpy(bomb.data() + kSizes + part, &claimed, 8);
      std::memset(bomb.data() + kChecksum, 0, 8);
      const std::uint64_t seed = XXH3_64bits(bomb.data(), kHeader);
      const std::uint64_t sum = XXH3_64bits_withSeed(bomb.data() + kHeader, bomb.size() - kHeader, seed);
      std::memcpy(bomb.data() + kChecksum, &sum, 8);
      CHECK_THROWS_WITH_AS(decode_entry(key_digest("key"), bomb), doctest::Contains("more bytes than it can hold"),
                           CacheError);
    }
  }
  large.source.assign(kMaximumEntryFile + 1, 'a');
  CHECK_THROWS_AS(encode_entry(key_digest("key"), large), CacheError);
  const TemporaryFolder dir;
  KernelCache cache(dir.path());
  cache.store("large", large);
  cache.store("key", entry("a"));
  CHECK(cache.find("large") == large);
  CHECK(cache.stats().stored == 1);
  fs::resize_file(cache.path_of("key"), std::uintmax_t{1} << 40);  // a hole, which takes no room on the disk
  CHECK_FALSE(cache.find("key"));
  CHECK(cache.stats().damaged == 1);
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
