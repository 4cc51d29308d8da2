#include "data/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kMagicBytes = 4, kExtentBytes = 4;

std::uint8_t byte_at(std::string_view bytes, std::size_t offset) { return static_cast<std::uint8_t>(bytes[offset]); }

std::size_t big_endian_32(std::string_view bytes, std::size_t offset) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < kExtentBytes; ++i) value = value << 8 | byte_at(bytes, offset + i);
  return value;
}

/// The number of extents, after the checks of the magic number.
std::size_t checked_rank(std::string_view bytes, const std::string& file) {
  if (bytes.size() < kMagicBytes || byte_at(bytes, 0) != 0 || byte_at(bytes, 1) != 0)
    throw DataError(fmt::format("{}: is not an IDX file: it must begin with two zero bytes", file));
  if (byte_at(bytes, 2) != kUnsignedByte)
    throw DataError(fmt::format("{}: holds elements of IDX type 0x{:02x}; only unsigned bytes (0x08) are read", file,
                                byte_at(bytes, 2)));
  const std::size_t rank = byte_at(bytes, 3);
  if (rank == 0) throw DataError(fmt::format("{}: the IDX array has no dimensions", file));
  if (bytes.size() < kMagicBytes + rank * kExtentBytes)
    throw DataError(fmt::format("{}: is truncated within the IDX header of {} dimensions", file, rank));
  return rank;
}

}  // namespace

IdxArray parse_idx(std::string_view bytes, const std::string& file) {
  const std::size_t rank = checked_rank(bytes, file);
  const std::size_t begin = kMagicBytes + rank * kExtentBytes, available = bytes.size() - begin;
  IdxArray array;
  bool fits = true;
  std::size_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t extent = big_endian_32(bytes, kMagicBytes + i * kExtentBytes);
    array.shape.push_back(extent);
    fits = fits && (extent == 0 || count <= available / extent);
    if (fits) count *= extent;
  }
  if (!fits || count != available)
    throw DataError(fmt::format("{}: the IDX header promises a shape of ({}) bytes, but {} follow it", file,
                                fmt::join(array.shape, " x "), available));
  array.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end());
  return array;
}

}  // namespace moxie
