#include "runtime/cache_file.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::array<char, 8> kMagic{'M', 'O', 'X', 'I', 'E', 'K', 'C', '\n'};
constexpr std::uint64_t kEntryFormat = 1;
/// Entries compress to a seventh at most, of the thousands looked at; more than this is no kernel, but a file made to
/// exhaust the memory.
constexpr std::uint64_t kMaximumExpansion = 256;
constexpr int kCompressionLevel = 3;  // zstd's default: ratio gains beyond it cost more time than they save

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t format = kEntryFormat;
  std::array<char, 32> digest{};
  std::uint64_t object_size = 0, source_size = 0, log_size = 0;
  std::uint64_t compressed_size = 0;
  std::uint64_t checksum = 0;  // of this header with checksum zero, and of what follows it
};
static_assert(sizeof(Header) == 88, "the header has no padding");

std::uint64_t checksum(Header header, std::string_view compressed) {
  header.checksum = 0;
  const std::uint64_t seed = XXH3_64bits(&header, sizeof(header));
  return XXH3_64bits_withSeed(compressed.data(), compressed.size(), seed);
}

[[noreturn]] void damaged(const char* reason) {
  throw CacheError(fmt::format("a kernel cache entry is damaged: {}", reason));
}

/// The length of the parts together, or nothing where no entry of this compressed size is so long.
std::optional<std::size_t> payload_size(const Header& header) {
  const std::uint64_t limit = std::min<std::uint64_t>(kMaximumEntryFile, kMaximumExpansion * header.compressed_size);
  std::uint64_t total = 0;
  for (const std::uint64_t size : {header.object_size, header.source_size, header.log_size}) {
    if (size > limit - total) return std::nullopt;
    total += size;
  }
  return total;
}

Header checked_header(std::string_view digest, std::string_view file) {
  Header header;
  if (file.size() < sizeof(header)) damaged("it is too short");
  std::memcpy(&header, file.data(), sizeof(header));
  const std::string_view compressed = file.substr(sizeof(header));
  if (header.magic != kMagic) damaged("it is no kernel cache entry");
  if (header.format != kEntryFormat) damaged("another version of moxie wrote it");
  if (header.compressed_size != compressed.size()) damaged("it is cut short");
  if (header.checksum != checksum(header, compressed)) damaged("its checksum is wrong");
  if (std::string_view(header.digest.data(), header.digest.size()) != digest) damaged("it belongs to another kernel");
  return header;
}

}  // namespace

std::string key_digest(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string encode_entry(std::string_view digest, const CacheEntry& entry) {
  const std::string payload = entry.object + entry.source + entry.log;
  std::string compressed(ZSTD_compressBound(payload.size()), '\0');
  const std::size_t size =
      ZSTD_compress(compressed.data(), compressed.size(), payload.data(), payload.size(), kCompressionLevel);
  if (ZSTD_isError(size) != 0)
    throw CacheError(fmt::format("a kernel cannot be compressed: {}", ZSTD_getErrorName(size)));
  compressed.resize(size);
  Header header;
  digest.copy(header.digest.data(), header.digest.size());
  header.object_size = entry.object.size();
  header.source_size = entry.source.size();
  header.log_size = entry.log.size();
  header.compressed_size = compressed.size();
  if (sizeof(header) + compressed.size() > kMaximumEntryFile || !payload_size(header))
    throw CacheError(fmt::format("a kernel of {} bytes is too large for the cache", payload.size()));
  header.checksum = checksum(header, compressed);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + compressed;
}

CacheEntry decode_entry(std::string_view digest, std::string_view file) {
  const Header header = checked_header(digest, file);
  const std::string_view compressed = file.substr(sizeof(header));
  const std::optional<std::size_t> claimed = payload_size(header);
  if (!claimed) damaged("it claims more bytes than it can hold");
  std::string payload(*claimed, '\0');
  const std::size_t size = ZSTD_decompress(payload.data(), payload.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(size) != 0 || size != payload.size()) damaged("it does not decompress");
  return {payload.substr(0, header.object_size), payload.substr(header.object_size, header.source_size),
          payload.substr(header.object_size + header.source_size)};
}

}  // namespace moxie
