#pragma once
// The MPI plugin as the runtime sees it: found and loaded when ranks train together.
#include "runtime/mpi/mpi_plugin.h"

namespace moxie {

/// Loads the plugin at the first call, and keeps it. Throws DeviceError where it is missing or belongs to another
/// build, with what was tried and what to install.
const moxie_mpi_functions& mpi_library();

}  // namespace moxie
