#pragma once
#include "runtime/cpu/host.h"
#include "runtime/device.h"

namespace moxie {

/// The table of costs that the device chooses schedules by: that of the level that kernels are compiled for.
Machine cpu_machine(const VectorMachine& machine, const DeviceOptions& options);
/// Native code for `machine` (normally host_machine()), compiled by LLVM, on a pool of threads.
std::shared_ptr<Device> make_cpu_device(const DeviceOptions& options, const VectorMachine& machine);

}  // namespace moxie
