#pragma once
// The file format of the kernel cache, and how its files are read.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/kernel_cache.h"

namespace moxie {

/// XXH3-128 of a key's text, as 32 hexadecimal digits.
std::string key_digest(std::string_view key);

/// The whole file: a header with the digest, lengths and a checksum over everything, then the compressed parts.
std::string encode_entry(std::string_view digest, const CacheEntry& entry);
/// Throws CacheError for bytes that are not the undamaged file of `digest`.
CacheEntry decode_entry(std::string_view digest, std::string_view file);

/// Throws std::system_error. An absent file is no error: the optional is empty.
std::optional<std::string> read_file(const std::filesystem::path& path);
/// Whether a file is one that atomic_write() left beside an entry when its process died, some time ago.
bool is_abandoned_temporary(const std::filesystem::path& path);

}  // namespace moxie
