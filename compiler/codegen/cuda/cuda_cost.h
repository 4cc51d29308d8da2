#pragma once
// What a launch takes on a GPU, by estimate: enough to choose between loops, and no prediction.
#include "compiler/codegen/cuda/cuda_schedule.h"

namespace moxie {

/// Seconds of one launch with the schedule that choose_cuda_schedule() gives the kernel. `extents` has a value for
/// every dim. Throws ShapeError where one is missing.
double gpu_seconds(const LoweredKernel& kernel, const GpuLimits& limits, const DimValues& extents);

}  // namespace moxie
