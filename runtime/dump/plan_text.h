#pragma once
// What a Plan is made of, as text.
#include <string>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "runtime/plan.h"

namespace moxie {

/// Kernels and library calls, with the reason for their loops.
std::string fuse_text(const Plan& plan);
/// How every kernel is shared out on this processor and on a GPU, with reasons. Dynamic dims may be missing.
std::string schedule_text(const Plan& plan, const DimValues& dims, const GpuLimits& limits,
                          const CudaPreferences& wanted);

}  // namespace moxie
