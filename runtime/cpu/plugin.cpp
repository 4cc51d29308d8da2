#include "runtime/cpu/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "compiler/support/error.h"
#include "runtime/cpu/llvm_plugin.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "libmoxie_llvm.so";

/// Fast enough to compile while a user waits; higher levels bring nothing for kernels (see the plugin's pipeline).
constexpr int kOptimisation = 1;

std::atomic<std::int64_t> compilation_count{0};
std::atomic<bool> loaded{false};

/// The functions of the plugin. It is never unloaded: LLVM keeps pointers to itself.
struct Plugin {
  moxie_llvm_compile_fn* compile = nullptr;
  moxie_llvm_free_fn* release = nullptr;
  moxie_llvm_version_fn* version = nullptr;
  moxie_llvm_library_fn* library = nullptr;
  fs::path path = {};
};

/// The file that the loader has mapped the address from.
fs::path file_of(const void* address) {
  Dl_info found;
  return dladdr(address, &found) != 0 ? fs::path(found.dli_fname) : fs::path();
}

Plugin resolve(void* library, const fs::path& path) {
  const auto symbol = [&](const char* name) {
    void* address = dlsym(library, name);
    if (address == nullptr) {
      throw CompileError(
          fmt::format("{} is no moxie plugin: it has no function {}; rebuild moxie or correct MOXIE_PLUGIN_DIR",
                      path.string(), name));
    }
    return address;
  };
  auto* abi = reinterpret_cast<moxie_llvm_abi_fn*>(symbol("moxie_llvm_abi"));
  if (std::string_view(abi()) != MOXIE_LLVM_ABI)
    throw CompileError(
        fmt::format("{} belongs to another build of moxie: expected '{}', found '{}'; rebuild moxie or correct "
                    "MOXIE_PLUGIN_DIR",
                    file_of(reinterpret_cast<void*>(abi)).string(), MOXIE_LLVM_ABI, abi()));
  void* compile = symbol("moxie_llvm_compile");
  return {reinterpret_cast<moxie_llvm_compile_fn*>(compile),
          reinterpret_cast<moxie_llvm_free_fn*>(symbol("moxie_llvm_free")),
          reinterpret_cast<moxie_llvm_version_fn*>(symbol("moxie_llvm_version")),
          reinterpret_cast<moxie_llvm_library_fn*>(symbol("moxie_llvm_library")), file_of(compile)};
}

Plugin load() {
  std::vector<std::string> reasons;
  fs::path path;
  if (void* library = open_plugin(kFileName, RTLD_NOW | RTLD_LOCAL, path, reasons)) {
    try {
      const Plugin plugin = resolve(library, path);
      loaded = true;
      return plugin;
    } catch (...) {
      dlclose(library);
      throw;
    }
  }
  throw CompileError(
      fmt::format("CPU kernels need moxie's LLVM plugin, {}, which could not be loaded:\n  {}\nBuild moxie with LLVM "
                  "19 installed (Debian: llvm-19-dev), "
                  "or set MOXIE_PLUGIN_DIR to the plugin's folder.",
                  kFileName, fmt::join(reasons, "\n  ")));
}

/// Loading is tried again after a failure, so that a corrected MOXIE_PLUGIN_DIR takes effect.
const Plugin& plugin() {
  static std::mutex mutex;
  static std::unique_ptr<const Plugin> instance;
  const std::scoped_lock lock(mutex);
  if (!instance) instance = std::make_unique<const Plugin>(load());
  return *instance;
}

std::string refusal(std::string_view reason, const fs::path& file) {
  while (reason.ends_with('\n')) reason.remove_suffix(1);
  if (!file.empty())
    return fmt::format("{}: LLVM refused this kernel: {}. Correct or remove the file.", file.string(), reason);
  return fmt::format(
      "LLVM refused a kernel: {}. This is a fault of moxie: please report it with the kernel's text (MOXIE_DUMP).",
      reason);
}

}  // namespace

void* open_plugin(const char* name, int mode, fs::path& path, std::vector<std::string>& reasons) {
  for (const fs::path& directory : plugin_directories()) {
    path = directory / name;
    std::error_code ignored;
    if (!directory.empty() && !fs::exists(path, ignored))
      reasons.push_back(fmt::format("{}: not there", path.string()));
    else if (void* library = dlopen(path.c_str(), mode))
      return library;
    else
      reasons.emplace_back(dlerror());
  }
  return nullptr;
}

std::vector<fs::path> plugin_directories() {
  std::vector<fs::path> directories;
  if (const std::string chosen = switch_value("MOXIE_PLUGIN_DIR"); !chosen.empty()) directories.emplace_back(chosen);
  // A library may hold this code, such as Python's module: the plugin lies beside it. The loader gives the executable
  // as its caller wrote it.
  const fs::path own = file_of(reinterpret_cast<const void*>(&plugin_directories));
  if (own.is_absolute()) directories.push_back(own.parent_path());
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    directories.push_back(executable.parent_path());
    directories.push_back(executable.parent_path().parent_path() / "lib");
  }
  directories.emplace_back();
  return directories;
}

std::vector<fs::path> llvm_plugin_candidates() {
  std::vector<fs::path> files;
  for (const fs::path& directory : plugin_directories())
    if (!directory.empty()) files.push_back(directory / kFileName);
  return files;
}

std::string compile_llvm(const std::string& text, const VectorMachine& machine, LlvmOutput want, const fs::path& file) {
  const Plugin& llvm = plugin();
  void* data = nullptr;
  std::size_t size = 0;
  char* message = nullptr;
  if (want == LlvmOutput::object) ++compilation_count;
  const int failed = llvm.compile(text.c_str(), machine.triple.c_str(), machine.cpu.c_str(), machine.features.c_str(),
                                  kOptimisation, static_cast<int>(want), &data, &size, &message);
  const std::unique_ptr<void, moxie_llvm_free_fn*> owned_data(data, llvm.release), owned_message(message, llvm.release);
  if (failed != 0) throw CompileError(refusal(message != nullptr ? message : "out of memory", file));
  return {static_cast<const char*>(data), size};
}

std::string llvm_version() { return plugin().version(); }
fs::path llvm_plugin_path() { return plugin().path; }
fs::path llvm_library_path() { return plugin().library(); }
bool llvm_is_loaded() { return loaded; }
std::int64_t llvm_compilations() { return compilation_count; }

}  // namespace moxie
