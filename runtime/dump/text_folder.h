#pragma once
// Folders of files that appear whole or not at all.
#include <filesystem>
#include <functional>
#include <string_view>

namespace moxie {

/// Not flushed to the disk: what a dump holds can be made again. Throws std::filesystem::filesystem_error.
void write_text(const std::filesystem::path& path, std::string_view text);
/// Whether there is such a folder, with a file `mark` by which its kind is known.
bool is_marked_folder(const std::filesystem::path& folder, std::string_view mark);
/// Calls `write` for a folder beside it, which is then renamed. An older folder of the same kind, known by the file
/// `mark`, is replaced; one that holds anything else is left alone. Throws DataError and leaves nothing behind.
void write_folder(const std::filesystem::path& folder, std::string_view mark,
                  const std::function<void(const std::filesystem::path& unfinished)>& write);

}  // namespace moxie
