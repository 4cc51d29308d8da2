#pragma once
// Files that appear whole or not at all.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace moxie {

/// Writes a temporary file beside `path`, flushes it to the disk and renames it, so that no reader ever sees half a
/// file, not even after a crash. On failure throws DataError with the path and the system's reason; what was at `path`
/// is untouched and nothing else is left behind.
void atomic_write(const std::filesystem::path& path, std::span<const std::byte> bytes);
void atomic_write(const std::filesystem::path& path, std::string_view text);

}  // namespace moxie
