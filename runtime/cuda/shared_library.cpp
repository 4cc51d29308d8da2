#include "runtime/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

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

namespace {

/// Folders of libraries below that of a toolkit, as its installers name them.
constexpr const char* kLibraryFolders[] = {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"};

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->is_directory(error)) found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

/// Where packages of Python are: beside this library, if it is one, and in the environment that is active.
std::vector<fs::path> package_folders() {
  std::vector<fs::path> found;
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&toolkit_directories), &own) != 0 && own.dli_fname != nullptr) {
    for (fs::path folder = fs::path(own.dli_fname).parent_path(); folder.has_relative_path();
         folder = folder.parent_path()) {
      if (folder.filename() == "site-packages" || folder.filename() == "dist-packages") found.push_back(folder);
    }
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    for (const fs::path& folder : folders_in(fs::path(value) / "lib")) {
      if (folder.filename().string().starts_with("python")) found.push_back(folder / "site-packages");
    }
  }
  return found;
}

}  // namespace

/// The loader's own search first; then toolkits, and the packages nvidia-* of pip: nvidia/cu13/lib, nvidia/cublas/lib.
std::vector<fs::path> toolkit_directories() {
  std::vector<fs::path> directories = {fs::path()};
  std::vector<fs::path> toolkits;
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') toolkits.emplace_back(value);
  }
  toolkits.emplace_back("/usr/local/cuda");
  for (const fs::path& toolkit : toolkits) {
    for (const char* folder : kLibraryFolders) directories.push_back(toolkit / folder);
  }
  for (const fs::path& packages : package_folders()) {
    for (const fs::path& package : folders_in(packages / "nvidia")) directories.push_back(package / "lib");
  }
  return directories;
}

}  // namespace moxie::cuda
