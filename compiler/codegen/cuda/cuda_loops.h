#pragma once
// The loops of a GPU's kernels: those that fusion arranged, or a nest for each definition, whichever is cheaper.
#include <vector>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "compiler/fuse/fuse.h"
#include "compiler/schedule/choose.h"

namespace moxie {

/// As schedule() for a processor: of the layouts that fusion wants and of plain row-major ones. In a nest all indices
/// of a definition together number its elements, the fastest axis counting first; each is computed by a thread, or by a
/// team that shares its sums and the loops over inner axes. `extents` has a value for every dim: exact for static ones,
/// typical for the others.
ScheduledProgram schedule_for_gpu(const Program& optimised, Products products, const DimValues& extents,
                                  const GpuLimits& limits);

}  // namespace moxie
