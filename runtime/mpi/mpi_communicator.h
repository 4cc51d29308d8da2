#pragma once
// Ranks that `mpirun` started, connected by MPI.
#include <memory>
#include <optional>
#include <string>

#include "runtime/communicator.h"

namespace moxie {

/// How a process knows that it is one of several ranks: a variable that the program which started it has set, and the
/// number of ranks where the variable tells it.
struct MpiLaunch {
  std::string variable;
  std::optional<int> size;
};

/// From the environment: Open MPI's mpirun, MPICH's and Intel's mpiexec, and srun with PMI-2 or PMIx set such
/// variables.
std::optional<MpiLaunch> find_mpi_launch();

/// Loads MPI and starts it. Throws DeviceError (see open_communicator).
std::shared_ptr<Communicator> open_mpi(const MpiLaunch& launch, const CommunicatorOptions& options);

}  // namespace moxie
