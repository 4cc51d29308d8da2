#include "runtime/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "compiler/support/error.h"

namespace moxie::cuda {

namespace fs = std::filesystem;

SharedLibrary::SharedLibrary(Search search) : search_(std::move(search)) {
  std::vector<std::string> places, reasons;
  for (const fs::path& directory : search_.directories) {
    places.push_back(directory.empty() ? "where the system's loader looks" : "in " + directory.string());
    for (const std::string& name : search_.names) {
      file_ = (directory / name).string();
      library_ = dlopen(file_.c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (library_ != nullptr) return;
      const std::string reason = dlerror();
      if (!reason.ends_with("No such file or directory")) reasons.push_back(reason);
    }
  }
  const std::string refused = reasons.empty() ? "" : fmt::format("; {}", fmt::join(reasons, "; "));
  throw DeviceError(fmt::format("{} could not be loaded: no {} {}{}. {}.", search_.part,
                                fmt::join(search_.names, " or "), fmt::join(places, ", "), refused, search_.remedy));
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
