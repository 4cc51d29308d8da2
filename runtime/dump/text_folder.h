#pragma once
// Folders of files that appear whole or not at all.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

/// Not flushed to the disk: what a dump holds can be made again. Throws std::filesystem::filesystem_error.
void write_text(const std::filesystem::path& path, std::string_view text);

/// What moxie writes folders for. Each folder has a file `moxie-folder` with the kind and the names of its files.
struct FolderKind {
  std::string name;
  std::vector<std::string> made_later = {};  // files that a folder's own scripts add
};

/// Calls `write` for an empty folder beside `folder` and then renames it. A folder that is there already is replaced if
/// moxie wrote it as the same kind and it holds no other files; it is renamed before anything is deleted, and only
/// files that moxie wrote are deleted. Throws DataError and leaves everything as it was where the folder holds anything
/// else, is the working directory or contains it, or cannot be written.
void write_folder(const std::filesystem::path& folder, const FolderKind& kind,
                  const std::function<void(const std::filesystem::path& unfinished)>& write);

}  // namespace moxie
