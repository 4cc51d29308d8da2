#pragma once
// LaunchObserver: sees what a device launches, for measurements and for kernels that are to be run again alone.
#include <span>

#include "compiler/loop/lower.h"
#include "runtime/plan.h"

namespace moxie {

class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  /// Around every launch, on the thread that runs the plan. `buffers` are those of the kernel's LoopProgram;
  /// `arguments` those of all its calls, one call after the other.
  virtual void before(const LoweredKernel& kernel, const Plan& plan, std::span<void* const> buffers,
                      std::span<const std::int64_t> arguments) = 0;
  virtual void after(const LoweredKernel& kernel) = 0;
};

}  // namespace moxie
