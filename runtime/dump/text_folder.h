#pragma once
// Folders of files that appear whole or not at all.
#include <filesystem>
#include <functional>
#include <string_view>

namespace moxie {

/// Not flushed to the disk: what a dump holds can be made again. Throws std::filesystem::filesystem_error.
void write_text(const std::filesystem::path& path, std::string_view text);
/// Calls `write` for a folder beside it, and renames that, over a `folder` that is there. Throws DataError and leaves nothing behind.
void write_folder(const std::filesystem::path& folder, const std::function<void(const std::filesystem::path& unfinished)>& write);

}  // namespace moxie
