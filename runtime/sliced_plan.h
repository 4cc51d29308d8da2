#pragma once
// Plans of Programs whose parts are planned one after the other, some of them to run in slices.
#include <functional>

#include "compiler/schedule/choose.h"
#include "runtime/plan.h"

namespace moxie {

/// A value for every dim of the Program: those that are known as they are, kAssumedExtent for the others.
DimValues typical_extents(const Program& program, DimValues known);

/// What `make` makes of each part, as one; `whole` is the Program that was taken apart, `extents` has typical values of
/// its dims.
ScheduledProgram joined(const Program& whole, const std::vector<ProgramPart>& parts, const DimValues& extents,
                        const std::function<ScheduledProgram(const ProgramPart& part, const DimValues& extents)>& make);

/// What schedule() or schedule_for_gpu() makes of the Program for the machine or the GPU of the target, in slices where
/// these pay; `with_slices` false: in none.
ScheduledProgram schedule_in_slices(const Program& optimised, const PlanTarget& target, bool with_slices);

}  // namespace moxie
