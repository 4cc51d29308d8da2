#pragma once
// What a Plan is made of, as text.
#include <string>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "runtime/dump/dump.h"
#include "runtime/given_schedules.h"

namespace moxie {

/// Stands in a text before what is so on GPUs, where that differs from what is so on the processor.
inline constexpr const char* kOnGpu = "# on a GPU\n";

/// Kernels and library calls as fusion arranges them, with the reason for their loops.
std::string fuse_text(const Compilation& compilation);
/// The schedule of every kernel with its estimate, the best schedules that were not taken, and how it is split: on this
/// processor and on a GPU. Dynamic dims may be missing.
std::string schedule_text(const Compilation& compilation, const DimValues& dims, const GpuLimits& limits,
                          const GivenByUser& given);

}  // namespace moxie
