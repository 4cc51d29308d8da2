#include "tools/commands/kept_files.h"

#include <fmt/format.h>

#include "tools/commands/command.h"

namespace moxie {

void keep_file(const std::string& option, const std::filesystem::path& written, const std::filesystem::path& read) {
  std::error_code error;
  if (std::filesystem::equivalent(written, read, error))
    throw UsageError(fmt::format("{} {}: the command reads this file; give another name", option, written.string()));
}

}  // namespace moxie
