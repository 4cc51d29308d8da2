#pragma once
// Search: the schedules that the structure of a kernel admits, and the cheapest of them by cost.
#include <vector>

#include "compiler/schedule/cost.h"
#include "compiler/schedule/nest.h"

namespace moxie {

struct Candidate {
  Schedule schedule;  // of a single definition
  LoweredKernel kernel;
  Cost cost;
};

/// What candidates are compared by: seconds with all cores that the machine is assumed to have, or with one if that is
/// done before others are awake, as the runtime decides, plus the work of one core, computing and moving bytes one
/// after the other, divided among them. The last part tells candidates apart that the memory makes equally fast on all
/// cores: on fewer cores, and where moving does not hide all of it, the one that computes less is faster.
double objective(const Cost& cost, const Machine& machine);

/// One schedule for the definition. Throws CompileError where it is not legal.
Candidate candidate(const FusedProgram& fused, const Definition& definition, const Schedule& schedule,
                    const DimValues& extents, const Machine& machine);

/// The kernel of these loops. Throws CompileError where they are not legal.
Candidate candidate(const FusedProgram& fused, const Nest& nest, const DimValues& extents, const Machine& machine);

/// The candidates that were tried for a kernel that computes the definition, cheapest first; the same for the same
/// arguments. Empty if no loops of these kinds can compute it. `extents` has a value for every dim.
std::vector<Candidate> search(const FusedProgram& fused, const Definition& definition, const DimValues& extents,
                              const Machine& machine);

}  // namespace moxie
