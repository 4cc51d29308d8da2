#pragma once
// Plans from the cache: what a Program became when it was planned for the first time, so that a process that meets it
// again neither rewrites it nor looks for schedules.
#include <memory>
#include <string>
#include <string_view>

#include "runtime/kernel_cache.h"
#include "runtime/plan.h"

namespace moxie {

/// What plans have cost so far.
struct PlanningCounts {
  int made = 0;                // plans that were made
  int found = 0;               // plans that the cache had
  std::size_t candidates = 0;  // loops that were lowered to choose among
  bool operator==(const PlanningCounts&) const = default;
};

/// The text of an entry, for `moxie dump`, begins with this and the name of the Program.
inline constexpr std::string_view kPlanMark = "plan of ";

/// All that decides about a plan: the Program, the checks, what it is made for, the sources of the compiler, and the
/// switches that change code.
std::string plan_key(const Program& program, const Checks& checks, const PlanTarget& target,
                     const std::vector<std::string>& without = {});

/// The plan for a target: what Planner::plan() makes but for the steps of `fused`, which only dumps show, if the cache
/// has it; else made and stored there. An entry that does not check out is replaced. `cache` may be null.
std::shared_ptr<const Plan> find_or_make_plan(KernelCache* cache, Planner& planner, const PlanTarget& target,
                                              PlanningCounts& counts);

}  // namespace moxie
