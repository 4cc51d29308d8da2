#pragma once
// Files that a command reads are not written over.
#include <filesystem>
#include <string>

namespace moxie {

/// Throws UsageError where the file that `option` names, such as --out, is the one that is read; neither has to exist.
void keep_file(const std::string& option, const std::filesystem::path& written, const std::filesystem::path& read);

}  // namespace moxie
