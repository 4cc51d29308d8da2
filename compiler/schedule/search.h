#pragma once
// Search: the schedules that the structure of a kernel admits, and the cheapest of them by cost.
#include <vector>

#include "compiler/schedule/cost.h"
#include "compiler/schedule/nest.h"

namespace moxie {

struct Candidate {
  Schedule schedule;
  LoweredKernel kernel;
  Cost cost;
};

/// The candidates that were tried for one kernel that computes these definitions, cheapest first; the same for the same
/// arguments. Empty if no loops of these kinds can compute them. `extents` has a value for every dim.
std::vector<Candidate> search(const FusedProgram& fused, std::span<const Definition> definitions,
                              const DimValues& extents, const Machine& machine);

}  // namespace moxie
