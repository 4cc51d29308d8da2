#include "runtime/dump/text_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <set>

#include "compiler/support/error.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

constexpr const char* kMark = "moxie-folder";
constexpr std::string_view kExplanation =
    "moxie replaces this folder as a whole when it writes here again, as long as it holds only these files:";

std::string mark_title(const FolderKind& kind) { return fmt::format("moxie folder: {}", kind.name); }

Names names_in(const fs::path& folder) {
  Names names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

void write_mark(const fs::path& folder, const FolderKind& kind) {
  Names names = names_in(folder);
  names.insert(kind.made_later.begin(), kind.made_later.end());
  std::string text = fmt::format("{}\n{}\n", mark_title(kind), kExplanation);
  for (const std::string& name : names) text += name + "\n";
  write_text(folder / kMark, text);
}

/// The files that the mark lists, itself included; nothing where there is no mark of this kind.
std::optional<Names> marked_names(const fs::path& folder, const FolderKind& kind) {
  if (!fs::is_regular_file(fs::symlink_status(folder / kMark))) return std::nullopt;
  std::ifstream file(folder / kMark, std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || line != mark_title(kind)) return std::nullopt;
  if (!std::getline(file, line) || line != kExplanation) return std::nullopt;
  Names names = {kMark};
  while (std::getline(file, line)) names.insert(line);
  return names;
}

/// Why the folder must not be replaced; empty where it may be.
std::string obstacle(const fs::path& folder, const FolderKind& kind) {
  if (!fs::is_directory(folder)) return "it is no folder";
  const fs::path here = fs::current_path();
  if (std::ranges::mismatch(folder, here).in1 == folder.end())
    return fmt::format("it is the working directory or holds it ({})", here.string());
  const Names present = names_in(folder);
  if (present.empty()) return {};
  const std::optional<Names> written = marked_names(folder, kind);
  if (!written) return fmt::format("it holds something else: there is no {} of a {} in it", kMark, kind.name);
  for (const std::string& name : present) {
    const bool is_file = !fs::is_directory(fs::symlink_status(folder / name));
    if (!is_file || !written->contains(name))
      return fmt::format("it holds something else: moxie did not write {}", (folder / name).string());
  }
  return {};
}

void require_replaceable(const fs::path& folder, const FolderKind& kind) {
  if (!fs::exists(folder)) return;
  if (const std::string reason = obstacle(folder, kind); !reason.empty())
    throw DataError(fmt::format("{} is not replaced: {}; name another folder", folder.string(), reason));
}

/// A name beside the folder that nothing has.
fs::path unused_name(const fs::path& folder, std::string_view purpose) {
  for (int k = 0;; ++k) {
    fs::path name = fmt::format("{}.{}-{}-{}", folder.string(), purpose, getpid(), k);
    if (!fs::exists(fs::symlink_status(name))) return name;
  }
}

/// Deletes the files that the mark lists, and the folder if nothing else is in it.
void remove_marked(const fs::path& folder, const FolderKind& kind) {
  const std::optional<Names> written = marked_names(folder, kind);
  std::error_code left;
  for (const std::string& name : names_in(folder))
    if (written && written->contains(name)) fs::remove(folder / name, left);
  fs::remove(folder, left);
}

void replace(const fs::path& folder, const fs::path& finished, const FolderKind& kind) {
  if (!fs::exists(folder)) return fs::rename(finished, folder);
  const fs::path old = unused_name(folder, "old");
  fs::rename(folder, old);
  try {
    fs::rename(finished, folder);
  } catch (...) {
    fs::rename(old, folder);
    throw;
  }
  remove_marked(old, kind);
}

/// The folder itself, whatever links and slashes its name has.
fs::path without_links(const fs::path& folder) {
  const fs::path path = fs::weakly_canonical(fs::absolute(folder));
  return path.has_filename() ? path : path.parent_path();
}

void write_beside(const fs::path& folder, const FolderKind& kind, const std::function<void(const fs::path&)>& write) {
  require_replaceable(folder, kind);
  fs::create_directories(folder.parent_path());
  const fs::path unfinished = unused_name(folder, "tmp");
  try {
    fs::create_directory(unfinished);
    write(unfinished);
    write_mark(unfinished, kind);
    replace(folder, unfinished, kind);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    throw;
  }
}

}  // namespace

void write_text(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw fs::filesystem_error("write", path, std::error_code(errno, std::generic_category()));
}

void write_folder(const fs::path& folder, const FolderKind& kind,
                  const std::function<void(const fs::path& unfinished)>& write) {
  try {
    write_beside(without_links(folder), kind, write);
  } catch (const fs::filesystem_error& error) {
    throw DataError(
        fmt::format("cannot write the folder {}: {}; name another one", folder.string(), error.code().message()));
  }
}

}  // namespace moxie
