#pragma once
// A plan for given extents that is ready to run on the CPU: its kernels in machine code, and the memory that they work
// in.
#include <memory>
#include <vector>

#include "compiler/schedule/machine.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_override.h"
#include "runtime/per_plan.h"

namespace moxie {

/// What all executables of a device share.
struct CpuResources {
  VectorMachine machine;
  Machine figures;
  KernelCache cache;
  KernelOverrides overrides;
  ThreadPool pool;
  bool tune = false;
  std::shared_ptr<LaunchObserver> observer;
  PerPlan<std::vector<CpuKernel::Ptr>> kernels = {};  // in the order of the steps
};

/// Throws DeviceError where a kernel does not compile. `resources` outlive the executable.
std::unique_ptr<Executable> make_cpu_executable(std::shared_ptr<const Plan> plan, DimValues dims,
                                                CpuResources& resources);

}  // namespace moxie
