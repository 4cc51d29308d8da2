#include "data/compression.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib's code for "32 KiB window, gzip header and checksum"
constexpr int kRawWindow = -15;       // "32 KiB window, no header"
constexpr std::size_t kChunk = 1 << 16;
constexpr std::size_t kMaxInput = 1U << 30;  // zlib counts input in 32 bits

class Inflater {
 public:
  Inflater(std::string_view input, const std::string& file, std::size_t max_bytes, int window)
      : rest_(input), file_(file), max_bytes_(max_bytes) {
    if (inflateInit2(&stream_, window) != Z_OK) throw DataError("zlib cannot be initialised: out of memory");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Appends one compressed stream to the output.
  void run() {
    for (int status = Z_OK; status != Z_STREAM_END;) status = step();
  }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  void restart() { inflateReset(&stream_); }
  std::string take() { return std::move(output_); }

 private:
  int step() {
    const std::size_t given = std::min(rest_.size(), kMaxInput);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    stream_.avail_in = static_cast<uInt>(given);
    stream_.next_out = reinterpret_cast<Bytef*>(chunk_.data());
    stream_.avail_out = kChunk;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    rest_.remove_prefix(given - stream_.avail_in);
    append(kChunk - stream_.avail_out);
    if (status == Z_BUF_ERROR || (status == Z_OK && rest_.empty() && stream_.avail_out == kChunk))
      throw DataError(
          fmt::format("{}: the compressed data is truncated after {} decompressed bytes", file_, output_.size()));
    if (status != Z_OK && status != Z_STREAM_END)
      throw DataError(fmt::format("{}: the compressed data is damaged after {} decompressed bytes ({})", file_,
                                  output_.size(), stream_.msg ? stream_.msg : "zlib failed"));
    return status;
  }
  void append(std::size_t count) {
    if (count > max_bytes_ - output_.size())
      throw DataError(fmt::format("{}: decompresses to more than the {} bytes allowed", file_, max_bytes_));
    output_.append(chunk_.data(), count);
  }

  z_stream stream_{};
  std::string_view rest_;
  const std::string& file_;
  std::size_t max_bytes_;
  std::string output_;
  std::array<char, kChunk> chunk_;
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.substr(0, 2) == "\x1f\x8b"; }

std::size_t decompressed_limit(std::size_t compressed_bytes, std::size_t max_bytes) {
  // Tables and images become 3 to 10 times as long, one-hot columns 100 times; deflate itself ends at 1032.
  constexpr std::size_t kMaximumExpansion = 200, kFreely = std::size_t{256} << 20;
  const bool is_large = compressed_bytes > max_bytes / kMaximumExpansion;
  return is_large ? max_bytes : std::min(max_bytes, std::max(kFreely, compressed_bytes * kMaximumExpansion));
}

std::string gunzip(std::string_view compressed, const std::string& file, std::size_t max_bytes) {
  Inflater inflater(compressed, file, max_bytes, kGzipWindow);
  inflater.run();
  while (is_gzip(inflater.rest())) {
    inflater.restart();
    inflater.run();
  }
  if (!inflater.at_end())
    throw DataError(fmt::format("{}: {} bytes follow the compressed data", file, inflater.rest().size()));
  return inflater.take();
}

std::string inflate_raw(std::string_view compressed, const std::string& file, std::size_t max_bytes) {
  Inflater inflater(compressed, file, max_bytes, kRawWindow);
  inflater.run();
  if (!inflater.at_end())
    throw DataError(fmt::format("{}: {} bytes follow the compressed data", file, inflater.rest().size()));
  return inflater.take();
}

std::string deflate_raw(std::string_view bytes) {
  if (bytes.size() > kMaxInput)
    throw DataError(fmt::format("cannot compress {} bytes at once; store them", bytes.size()));
  z_stream stream{};
  constexpr int kMemoryLevel = 8;  // zlib's default
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRawWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
    throw DataError("zlib cannot be initialised: out of memory");
  std::string output(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(output.data());
  stream.avail_out = static_cast<uInt>(output.size());
  const int status = deflate(&stream, Z_FINISH);
  output.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw DataError(fmt::format("zlib cannot compress {} bytes", bytes.size()));
  return output;
}

}  // namespace moxie
