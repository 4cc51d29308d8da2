#pragma once
// Static libraries as linkers of Unix read them (ar, with an index of symbols in the format of System V).
#include <string>
#include <vector>

namespace moxie::aot {

struct ArchiveMember {
  std::string name;
  std::string object;                // the bytes of an ELF object
  std::vector<std::string> symbols;  // that it defines for others
};

/// The same members give the same bytes, whenever and wherever.
std::string make_archive(const std::vector<ArchiveMember>& members);

}  // namespace moxie::aot
