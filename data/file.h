#pragma once
// Whole files, transparently decompressed.
#include <cstddef>
#include <filesystem>
#include <string>

namespace moxie {

/// No reader takes more than this from one file, compressed or not.
inline constexpr std::size_t kMaxFileBytes = std::size_t{4} << 30;

/// The content of a file; gzip is recognised by its first bytes, whatever the name, and decompressed. Throws DataError.
std::string read_whole_file(const std::filesystem::path& path, std::size_t max_bytes = kMaxFileBytes);

}  // namespace moxie
