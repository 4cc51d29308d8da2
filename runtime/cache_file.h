#pragma once
// The file format of the kernel cache, and how its files are read.
#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/kernel_cache.h"

namespace moxie {

/// XXH3-128 of a key's text, as 32 hexadecimal digits.
std::string key_digest(std::string_view key);

/// The whole file: a header with the digest, lengths and a checksum over everything, then the compressed parts. Throws
/// CacheError for an entry that decode_entry() would refuse as too large.
std::string encode_entry(std::string_view digest, const CacheEntry& entry);
/// Throws CacheError for bytes that are not the undamaged file of `digest`. Memory is allocated for what the file can
/// hold, whatever lengths it claims: at most kMaximumEntryFile bytes, and for a small file not many times its size.
CacheEntry decode_entry(std::string_view digest, std::string_view file);

/// The number of bytes that a file of the cache can have; no other file is read.
inline constexpr std::size_t kMaximumEntryFile = std::size_t{64} << 20;

}  // namespace moxie
