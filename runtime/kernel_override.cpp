#include "runtime/kernel_override.h"

#include <fmt/format.h>

#include <system_error>

#include "compiler/support/error.h"
#include "runtime/cache_file.h"
#include "runtime/file_name.h"
#include "runtime/log.h"
#include "runtime/private_file.h"

namespace moxie {

namespace fs = std::filesystem;

std::string kernel_file_name(std::string_view kernel, std::string_view cache_key, std::string_view extension) {
  return fmt::format("{}-{}{}", kernel, key_digest(cache_key), extension);
}

std::optional<KernelOverrides::Replacement> KernelOverrides::find(const std::string& file_name) {
  if (directory_.empty()) return std::nullopt;
  const fs::path file = path_inside(directory_, file_name, "MOXIE_KERNEL_OVERRIDE");
  try {
    auto text = read_regular_file(file);
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
  try {
    log_unused_files();
  } catch (...) {  // NOLINT(bugprone-empty-catch): no line of a log is worth ending the program
  }
}

void KernelOverrides::log_unused_files() const {
  if (directory_.empty() || !is_logged(LogChannel::Codegen)) return;
  std::error_code error;
  for (fs::directory_iterator entry(directory_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    // The folder may be one that MOXIE_DUMP wrote, with much that is no kernel's text.
    const fs::path& path = entry->path();
    const bool is_kernel = path.extension() == ".ll" || path.extension() == ".cu";
    if (is_kernel && !used_.contains(path.filename().string()))
      log_info(LogChannel::Codegen, "unused: {} is the file of no kernel that this device has run", path.string());
  }
}

}  // namespace moxie
