#include "runtime/mpi/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cpu/plugin.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMpiPlugin = "libmoxie_mpi.so";

const moxie_mpi_functions& functions_of(void* library, const fs::path& path) {
  auto* plugin = reinterpret_cast<moxie_mpi_plugin_fn*>(dlsym(library, "moxie_mpi_plugin"));
  if (plugin == nullptr) throw DeviceError(fmt::format("{} is not moxie's MPI plugin; rebuild moxie", path.string()));
  const moxie_mpi_functions& functions = *plugin();
  if (std::string_view(functions.abi) != MOXIE_MPI_ABI)
    throw DeviceError(fmt::format("{} belongs to another build of moxie: expected '{}', found '{}'; rebuild moxie",
                                  path.string(), MOXIE_MPI_ABI, functions.abi));
  return functions;
}

const moxie_mpi_functions& load_mpi() {
  std::vector<std::string> reasons;
  fs::path path;
  // Global, as the components that Open MPI itself loads may look for its symbols there.
  if (void* library = open_plugin(kMpiPlugin, RTLD_NOW | RTLD_GLOBAL, path, reasons))
    return functions_of(library, path);
  throw DeviceError(
      fmt::format("ranks need moxie's MPI plugin, {}, which could not be loaded:\n  {}\nInstall MPI (Debian: "
                  "libopenmpi-dev and openmpi-bin) and build moxie again, which then makes the plugin; or start moxie "
                  "without mpirun.",
                  kMpiPlugin, fmt::join(reasons, "\n  ")));
}

}  // namespace

const moxie_mpi_functions& mpi_library() {
  static const moxie_mpi_functions& loaded = load_mpi();
  return loaded;
}

}  // namespace moxie
