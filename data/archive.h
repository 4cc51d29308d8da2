#pragma once
// The files inside tar and zip archives. Strict and small: what the data sets and NumPy write, and nothing else.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

struct ArchiveMember {
  std::string name;
  std::string content;
  bool operator==(const ArchiveMember&) const = default;
};

/// The files of an uncompressed ustar archive in their order; folders are skipped; links, devices and extension headers
/// are refused. Throws DataError, naming `file`.
std::vector<ArchiveMember> read_tar(std::string_view archive, const std::string& file);

/// The members of a zip archive, stored or deflated, checksums verified; `max_bytes` bounds their sum. Encrypted, split
/// and zip64 archives are refused. Throws DataError, naming `file`.
std::vector<ArchiveMember> read_zip(std::string_view archive, const std::string& file, std::size_t max_bytes);

/// A zip archive without time stamps (the same members give the same bytes). Throws DataError above the 4 GiB of the
/// format.
std::string write_zip(const std::vector<ArchiveMember>& members, bool compress);

}  // namespace moxie
