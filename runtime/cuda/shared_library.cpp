#include "runtime/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "compiler/support/error.h"

namespace moxie::cuda {

namespace fs = std::filesystem;

SharedLibrary::SharedLibrary(Search search) : search_(std::move(search)) {
  std::vector<std::string> reasons;
  for (const fs::path& directory : search_.directories) {
    for (const std::string& name : search_.names) {
      const fs::path path = directory / name;
      std::error_code ignored;
      if (!directory.empty() && !fs::exists(path, ignored)) {
        reasons.push_back(fmt::format("{}: not there", path.string()));
        continue;
      }
      library_ = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
      file_ = path.string();
      if (library_ != nullptr) return;
      reasons.emplace_back(dlerror());
    }
  }
  throw DeviceError(
      fmt::format("{} could not be loaded:\n  {}\n{}.", search_.part, fmt::join(reasons, "\n  "), search_.remedy));
}

void* SharedLibrary::address(const char* name) const {
  if (void* found = dlsym(library_, name)) return found;
  throw DeviceError(
      fmt::format("{} in {} is too old: it has no function {}. {}.", search_.part, file_, name, search_.remedy));
}

std::vector<fs::path> toolkit_directories() {
  std::vector<fs::path> directories = {fs::path()};
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') directories.push_back(fs::path(value) / "lib64");
  }
  directories.emplace_back("/usr/local/cuda/lib64");
  return directories;
}

}  // namespace moxie::cuda
