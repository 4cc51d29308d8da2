#pragma once
// Plans that keep to a limit of memory: scans that would keep all of their steps for a derivative keep checkpoints.
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/plan.h"

namespace moxie {

/// What a run needs beside inputs and outputs, in bytes, but for copies of partial results.
std::int64_t planned_bytes(const Plan& plan, const DimValues& dims);

using MakePlan = std::function<std::shared_ptr<const Plan>(const Program& program)>;
/// `plan`, which is one of `program`; where it needs more than `limit` for these extents, what `make` makes of the
/// Program with checkpoints every sqrt(T) steps in all scans that have none, if that needs less.
std::shared_ptr<const Plan> within_memory(std::shared_ptr<const Plan> plan, const Program& program,
                                          const DimValues& dims, std::int64_t limit, const MakePlan& make);

}  // namespace moxie
