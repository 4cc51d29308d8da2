#include <fmt/format.h>
#include <zlib.h>

#include <cstdint>
#include <limits>

#include "compiler/support/error.h"
#include "data/archive.h"
#include "data/compression.h"

namespace moxie {
namespace {

// Signatures and sizes of the three records, APPNOTE.TXT 4.3.
constexpr std::uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50;
constexpr std::size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kMaxComment = 0xffff;
constexpr std::uint32_t kStored = 0, kDeflated = 8, kVersion = 20, kDosEpoch = 0x21;  // 1980-01-01
constexpr std::uint32_t kZip64 = 0xffffffff;

std::uint32_t little_endian(std::string_view bytes, std::size_t offset, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes[offset + i]);
  return value;
}
std::uint32_t u16(std::string_view bytes, std::size_t offset) { return little_endian(bytes, offset, 2); }
std::uint32_t u32(std::string_view bytes, std::size_t offset) { return little_endian(bytes, offset, 4); }

std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

struct Entry {
  std::string name;
  std::uint32_t flags, method, checksum, packed, unpacked, offset;
};

class ZipReader {
 public:
  ZipReader(std::string_view archive, const std::string& file, std::size_t max_bytes)
      : archive_(archive), file_(file), budget_(max_bytes) {}

  std::vector<ArchiveMember> members() {
    std::vector<ArchiveMember> result;
    for (const Entry& entry : directory()) result.push_back({entry.name, content(entry)});
    return result;
  }

 private:
  std::size_t end_record() const {
    for (std::size_t back = kEndSize; back <= std::min(archive_.size(), kEndSize + kMaxComment); ++back) {
      const std::size_t at = archive_.size() - back;
      if (u32(archive_, at) == kEndSignature && u16(archive_, at + 20) == back - kEndSize) return at;
    }
    throw DataError(fmt::format("{}: is not a zip archive, or is truncated (no end record)", file_));
  }

  std::vector<Entry> directory() const {
    const std::size_t end = end_record(), count = u16(archive_, end + 10);
    std::size_t offset = u32(archive_, end + 16);
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < count; ++i) {
      if (offset > end || end - offset < kCentralSize || u32(archive_, offset) != kCentralSignature)
        throw DataError(fmt::format("{}: the zip directory is damaged at entry {} of {}", file_, i + 1, count));
      const std::string_view record = archive_.substr(offset, end - offset);
      const std::size_t name = u16(record, 28), extra = u16(record, 30), comment = u16(record, 32);
      if (record.size() - kCentralSize < name + extra + comment)
        throw DataError(fmt::format("{}: the zip directory is damaged at entry {} of {}", file_, i + 1, count));
      entries.push_back({std::string(record.substr(kCentralSize, name)), u16(record, 8), u16(record, 10),
                         u32(record, 16), u32(record, 20), u32(record, 24), u32(record, 42)});
      offset += kCentralSize + name + extra + comment;
    }
    return entries;
  }

  std::string content(const Entry& entry) {
    const std::string where = fmt::format("{}: member '{}'", file_, entry.name);
    if (entry.flags & 1) throw DataError(where + " is encrypted; only plain archives are read");
    if (entry.packed == kZip64 || entry.unpacked == kZip64 || entry.offset == kZip64)
      throw DataError(where + " uses zip64; only archives below 4 GiB are read");
    if (entry.unpacked > budget_) throw DataError(fmt::format("{} exceeds the {} bytes allowed", where, budget_));
    const std::string_view packed = packed_bytes(entry, where);
    std::string bytes = unpack(entry, packed, where);
    if (bytes.size() != entry.unpacked)
      throw DataError(fmt::format("{} has {} bytes instead of {}", where, bytes.size(), entry.unpacked));
    if (checksum(bytes) != entry.checksum) throw DataError(where + " is damaged (wrong checksum)");
    budget_ -= bytes.size();
    return bytes;
  }

  std::string_view packed_bytes(const Entry& entry, const std::string& where) const {
    const std::string_view rest = archive_.substr(std::min<std::size_t>(entry.offset, archive_.size()));
    if (rest.size() < kLocalSize || u32(rest, 0) != kLocalSignature) throw DataError(where + " has no local header");
    const std::size_t begin = kLocalSize + u16(rest, 26) + u16(rest, 28);
    if (rest.size() < begin || rest.size() - begin < entry.packed) throw DataError(where + " is truncated");
    return rest.substr(begin, entry.packed);
  }

  static std::string unpack(const Entry& entry, std::string_view packed, const std::string& where) {
    if (entry.method == kStored) return std::string(packed);
    if (entry.method == kDeflated) return inflate_raw(packed, where, entry.unpacked);
    throw DataError(
        fmt::format("{} uses compression method {}; only stored and deflated members are read", where, entry.method));
  }

  std::string_view archive_;
  const std::string& file_;
  std::size_t budget_;
};

void put(std::string& out, std::size_t size, std::uint32_t value) {
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

std::uint32_t checked_u32(std::size_t value, const char* what) {
  if (value >= kZip64) throw DataError(fmt::format("zip: {} of {} bytes exceeds the 4 GiB of the format", what, value));
  return static_cast<std::uint32_t>(value);
}

/// The fields that the local header and the directory entry share, from the version on.
std::string shared_fields(const Entry& entry) {
  std::string out;
  put(out, 2, kVersion);
  put(out, 2, entry.flags);
  put(out, 2, entry.method);
  put(out, 2, 0);
  put(out, 2, kDosEpoch);
  put(out, 4, entry.checksum);
  put(out, 4, entry.packed);
  put(out, 4, entry.unpacked);
  put(out, 2, static_cast<std::uint32_t>(entry.name.size()));
  put(out, 2, 0);
  return out;
}

std::string directory_record(const Entry& entry) {
  std::string out;
  put(out, 4, kCentralSignature);
  put(out, 2, kVersion);
  out += shared_fields(entry);
  constexpr std::size_t kCommentDiskAndAttributes = 10;
  out.append(kCommentDiskAndAttributes, '\0');
  put(out, 4, entry.offset);
  return out + entry.name;
}

}  // namespace

std::vector<ArchiveMember> read_zip(std::string_view archive, const std::string& file, std::size_t max_bytes) {
  return ZipReader(archive, file, max_bytes).members();
}

std::string write_zip(const std::vector<ArchiveMember>& members, bool compress) {
  constexpr std::size_t kMaxMembers = std::numeric_limits<std::uint16_t>::max() - 1, kMaxName = 0xffff;
  if (members.size() > kMaxMembers) throw DataError(fmt::format("zip: {} members are too many", members.size()));
  std::string out, directory;
  for (const ArchiveMember& member : members) {
    if (member.name.size() > kMaxName)
      throw DataError(fmt::format("zip: a name of {} bytes is too long", member.name.size()));
    const std::string packed = compress ? deflate_raw(member.content) : member.content;
    const Entry entry{member.name,
                      0,
                      compress ? kDeflated : kStored,
                      checksum(member.content),
                      checked_u32(packed.size(), "a member"),
                      checked_u32(member.content.size(), "a member"),
                      checked_u32(out.size(), "an archive")};
    put(out, 4, kLocalSignature);
    out += shared_fields(entry) + member.name + packed;
    directory += directory_record(entry);
  }
  const std::uint32_t directory_offset = checked_u32(out.size(), "an archive");
  out += directory;
  put(out, 4, kEndSignature);
  put(out, 4, 0);
  put(out, 2, static_cast<std::uint32_t>(members.size()));
  put(out, 2, static_cast<std::uint32_t>(members.size()));
  put(out, 4, checked_u32(directory.size(), "a directory"));
  put(out, 4, directory_offset);
  put(out, 2, 0);
  return out;
}

}  // namespace moxie
