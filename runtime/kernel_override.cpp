#include "runtime/kernel_override.h"

#include <fmt/format.h>

#include <system_error>

#include "compiler/support/error.h"
#include "runtime/cache_file.h"
#include "runtime/log.h"

namespace moxie {

namespace fs = std::filesystem;

std::string kernel_file_name(std::string_view kernel, std::string_view cache_key, std::string_view extension) {
  return fmt::format("{}-{}{}", kernel, key_digest(cache_key), extension);
}

std::optional<KernelOverrides::Replacement> KernelOverrides::find(const std::string& file_name) {
  if (directory_.empty()) return std::nullopt;
  const fs::path file = directory_ / file_name;
  try {
    auto text = read_file(file);
    if (!text) return std::nullopt;
    log_info(LogChannel::Codegen, "replaced by {}", file.string());
    const std::scoped_lock lock(mutex_);
    used_.insert(file_name);
    return Replacement{file, std::move(*text)};
  } catch (const std::system_error& error) {
    throw DataError(fmt::format("MOXIE_KERNEL_OVERRIDE: cannot read {}: {}", file.string(), error.code().message()));
  }
}

std::size_t KernelOverrides::count() const {
  const std::scoped_lock lock(mutex_);
  return used_.size();
}

KernelOverrides::~KernelOverrides() {
  if (directory_.empty() || !is_logged(LogChannel::Codegen)) return;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, ignored)) {
    // The folder may be one that MOXIE_DUMP wrote, with much that is no kernel's text.
    const std::string extension = entry.path().extension().string();
    if ((extension == ".ll" || extension == ".cu") && !used_.contains(entry.path().filename().string()))
      log_info(LogChannel::Codegen, "unused: {} is the file of no kernel that this device has run",
               entry.path().string());
  }
}

}  // namespace moxie
