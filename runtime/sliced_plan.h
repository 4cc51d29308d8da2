#pragma once
// Plans of Programs whose parts are planned one after the other, some of them to run in slices.
#include "compiler/schedule/choose.h"
#include "runtime/plan.h"

namespace moxie {

/// A value for every dim of the Program: those that are known as they are, kAssumedExtent for the others.
DimValues typical_extents(const Program& program, DimValues known);

/// What schedule() makes of the Program for the machine of the target, in slices where these pay; `with_slices` false:
/// in none.
ScheduledProgram schedule_in_slices(const Program& optimised, const PlanTarget& target, bool with_slices);

}  // namespace moxie
