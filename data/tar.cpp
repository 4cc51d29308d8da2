#include "data/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::size_t kBlock = 512;

// Byte ranges of the header block, POSIX.1-1988 ustar.
struct Field {
  std::size_t offset, size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 5}, kPrefix{345, 155};

std::string_view bytes_of(std::string_view header, Field field) { return header.substr(field.offset, field.size); }

std::string text_of(std::string_view header, Field field) {
  const std::string_view bytes = bytes_of(header, field);
  return std::string(bytes.substr(0, bytes.find('\0')));
}

/// Octal digits, ended by a blank, a zero byte or the field's end.
std::optional<std::size_t> octal_of(std::string_view header, Field field) {
  std::string_view bytes = bytes_of(header, field);
  bytes.remove_prefix(std::min(bytes.find_first_not_of(' '), bytes.size()));
  bytes = bytes.substr(0, bytes.find_first_of(std::string_view(" \0", 2)));
  if (bytes.empty()) return std::nullopt;
  std::size_t value = 0;
  for (const char digit : bytes) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value * 8 + static_cast<std::size_t>(digit - '0');
  }
  return value;
}

/// The sum of the header's bytes with the checksum field itself counted as blanks.
std::size_t checksum_of(std::string_view header) {
  std::size_t sum = kChecksum.size * ' ';
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  for (const char byte : bytes_of(header, kChecksum)) sum -= static_cast<unsigned char>(byte);
  return sum;
}

std::string member_name(std::string_view header) {
  const std::string prefix = text_of(header, kPrefix);
  return prefix.empty() ? text_of(header, kName) : prefix + "/" + text_of(header, kName);
}

bool is_end(std::string_view header) { return header.find_first_not_of('\0') == std::string_view::npos; }

/// The member's size, after the checks of its header.
std::size_t checked_size(std::string_view header, const std::string& file, std::size_t offset) {
  if (bytes_of(header, kMagic) != "ustar")
    throw DataError(fmt::format("{}: no ustar header at byte {}; is it a tar archive?", file, offset));
  if (octal_of(header, kChecksum) != checksum_of(header))
    throw DataError(fmt::format("{}: the header at byte {} is damaged (wrong checksum)", file, offset));
  const std::optional<std::size_t> size = octal_of(header, kSize);
  if (!size) throw DataError(fmt::format("{}: the header at byte {} has no valid size", file, offset));
  return *size;
}

}  // namespace

std::vector<ArchiveMember> read_tar(std::string_view archive, const std::string& file) {
  std::vector<ArchiveMember> members;
  std::size_t offset = 0;
  while (archive.size() - offset >= kBlock) {
    const std::string_view header = archive.substr(offset, kBlock);
    if (is_end(header)) return members;
    const std::size_t size = checked_size(header, file, offset);
    const std::string name = member_name(header);
    offset += kBlock;
    if (size > archive.size() - offset)
      throw DataError(
          fmt::format("{}: member '{}' is truncated: {} of {} bytes", file, name, archive.size() - offset, size));
    const char type = header[kType.offset];
    if (type == '0' || type == '\0') {
      members.push_back({name, std::string(archive.substr(offset, size))});
    } else if (type != '5') {
      throw DataError(fmt::format("{}: member '{}' is neither a file nor a folder (type '{}')", file, name, type));
    }
    const std::size_t padded = (size + kBlock - 1) / kBlock * kBlock;
    offset += std::min(padded, archive.size() - offset);
  }
  throw DataError(fmt::format("{}: the archive is truncated: no end mark after {} members", file, members.size()));
}

}  // namespace moxie
