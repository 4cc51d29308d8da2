#include "runtime/aot/archive.h"

#include <fmt/format.h>

#include <cstdint>

namespace moxie::aot {
namespace {

/// Contents begin at even places.
std::string padded(std::string bytes) {
  if (bytes.size() % 2 != 0) bytes += '\n';
  return bytes;
}

/// Of 60 bytes: name, time, owner, group, mode in octal, size, end.
std::string header(const std::string& name, std::size_t size) {
  return fmt::format("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", name, 0, 0, 0, 644, size);
}

std::string big_endian(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xFF);
  return bytes;
}

}  // namespace

std::string make_archive(const std::vector<ArchiveMember>& members) {
  std::string names, index_names;
  std::vector<std::string> contents;
  std::size_t symbols = 0;
  for (const ArchiveMember& member : members) {
    contents.push_back(header(fmt::format("/{}", names.size()), member.object.size()) + padded(member.object));
    names += member.name + "/\n";
    for (const std::string& symbol : member.symbols) index_names += symbol + '\0';
    symbols += member.symbols.size();
  }
  const std::string start = "!<arch>\n";
  const std::size_t index_size = 4 + 4 * symbols + index_names.size();
  const std::string name_table = header("//", names.size()) + padded(names);
  std::size_t offset = start.size() + 60 + index_size + index_size % 2 + name_table.size();
  std::string index = big_endian(symbols);
  for (std::size_t k = 0; k < members.size(); ++k) {
    for (std::size_t s = 0; s < members[k].symbols.size(); ++s) index += big_endian(offset);
    offset += contents[k].size();
  }
  std::string archive = start + header("/", index_size) + padded(index + index_names) + name_table;
  for (const std::string& content : contents) archive += content;
  return archive;
}

}  // namespace moxie::aot
