#include "runtime/cache_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "compiler/support/error.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic{'M', 'O', 'X', 'I', 'E', 'K', 'C', '\n'};
constexpr std::uint64_t kFormat = 1;
constexpr std::uint64_t kLargestPayload = std::uint64_t{1} << 30;  // nothing is allocated for lengths beyond it
constexpr int kCompressionLevel = 3;  // zstd's default: ratio gains beyond it cost more time than they save
constexpr std::string_view kTemporaryMark = ".kernel.tmp-";  // as atomic_write() names its files
constexpr auto kTemporaryLifetime = std::chrono::hours(1);

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t format = kFormat;
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

[[noreturn]] void fail(const char* action, const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), fmt::format("cannot {} {}", action, path.string()));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

Header checked_header(std::string_view digest, std::string_view file) {
  Header header;
  if (file.size() < sizeof(header)) damaged("it is too short");
  std::memcpy(&header, file.data(), sizeof(header));
  const std::string_view compressed = file.substr(sizeof(header));
  if (header.magic != kMagic) damaged("it is no kernel cache entry");
  if (header.format != kFormat) damaged("another version of moxie wrote it");
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
  header.checksum = checksum(header, compressed);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + compressed;
}

CacheEntry decode_entry(std::string_view digest, std::string_view file) {
  const Header header = checked_header(digest, file);
  const std::string_view compressed = file.substr(sizeof(header));
  for (const std::uint64_t size : {header.object_size, header.source_size, header.log_size}) {
    if (size > kLargestPayload) damaged("it claims an absurd length");
  }
  std::string payload(header.object_size + header.source_size + header.log_size, '\0');
  const std::size_t size = ZSTD_decompress(payload.data(), payload.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(size) != 0 || size != payload.size()) damaged("it does not decompress");
  return {payload.substr(0, header.object_size), payload.substr(header.object_size, header.source_size),
          payload.substr(header.object_size + header.source_size)};
}

std::optional<std::string> read_file(const fs::path& path) {
  const Descriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (in < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail("open", path);
  }
  struct stat info{};
  if (::fstat(in, &info) != 0) fail("inspect", path);
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(in, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

bool is_abandoned_temporary(const fs::path& path) {
  std::error_code error;
  if (path.string().find(kTemporaryMark) == std::string::npos) return false;
  const auto written = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - written > kTemporaryLifetime;
}

}  // namespace moxie
