#include "runtime/atomic_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "compiler/support/error.h"
#include "runtime/temporary_folder.h"

using namespace moxie;
namespace fs = std::filesystem;

namespace {

/// An empty folder for one test.
struct Folder : TemporaryFolder {
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(path()), {}); }
};

/// Lets this process write files of at most `bytes` bytes: what a full disk does, without one.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_;
};

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string complaint(const fs::path& path, std::string_view text) {
  try {
    atomic_write(path, text);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a file is written, then replaced") {
  const Folder folder;
  atomic_write(folder.path() / "a", "first");
  atomic_write(folder.path() / "a", "second");
  CHECK(contents(folder.path() / "a") == "second");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a symbolic link stays one") {
  const Folder folder;
  atomic_write(folder.path() / "real", "old");
  fs::create_symlink("real", folder.path() / "link");
  atomic_write(folder.path() / "link", "new");
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(contents(folder.path() / "real") == "new");
}

TEST_CASE("a failed write names path and reason and leaves everything as it was") {
  const Folder folder;
  const fs::path path = folder.path() / "a";
  atomic_write(path, "old");
  {
    const FileSizeLimit limit(1000);
    CHECK(complaint(path, std::string(5000, 'x')) ==
          "cannot write " + path.string() + ": writing failed: File too large");
  }
  CHECK(contents(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a folder that is absent or is a file is named with the reason") {
  const Folder folder;
  const fs::path absent = folder.path() / "none" / "a", below_file = folder.path() / "file" / "a";
  atomic_write(folder.path() / "file", "");
  CHECK(complaint(absent, "x") ==
        "cannot write " + absent.string() + ": creating a file in its folder failed: No such file or directory");
  CHECK(complaint(below_file, "x") ==
        "cannot write " + below_file.string() + ": creating a file in its folder failed: Not a directory");
}

TEST_CASE("folders and devices are not replaced") {
  const Folder folder;
  CHECK(complaint(folder.path(), "x") ==
        "cannot write " + folder.path().string() + ": it exists and is not a regular file");
  CHECK(complaint("/dev/null", "x") == "cannot write /dev/null: it exists and is not a regular file");
}
