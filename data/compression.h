#pragma once
// gzip and raw deflate, decompressed with a bound on the result so that a small file cannot fill the memory.
#include <cstddef>
#include <string>
#include <string_view>

namespace moxie {

/// Whether the bytes begin as a gzip file does.
bool is_gzip(std::string_view bytes);

/// How many bytes so much compressed data may become, `max_bytes` at most: a small file that becomes gigabytes was made
/// to exhaust the memory.
std::size_t decompressed_limit(std::size_t compressed_bytes, std::size_t max_bytes);

/// Decompresses a gzip file of one or more members. Throws DataError, naming `file`, if it is truncated or damaged, if
/// bytes follow the last member, or if the result would exceed `max_bytes`.
std::string gunzip(std::string_view compressed, const std::string& file, std::size_t max_bytes);

/// Decompresses a raw deflate stream (a zip member), with the checks of gunzip.
std::string inflate_raw(std::string_view compressed, const std::string& file, std::size_t max_bytes);

/// Compresses to a raw deflate stream.
std::string deflate_raw(std::string_view bytes);

}  // namespace moxie
