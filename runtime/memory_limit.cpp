#include "runtime/memory_limit.h"

#include <optional>
#include <vector>

#include "compiler/support/error.h"

namespace moxie {
namespace {

/// Nothing where no scan keeps all of its steps.
std::optional<Program> with_checkpoints(Program program) {
  bool changed = false;
  for (Definition& definition : program.definitions) {
    if (!definition.scan || definition.scan->checkpoints) continue;
    definition.scan->checkpoints = recompute_every();
    changed = true;
  }
  return changed ? std::optional(std::move(program)) : std::nullopt;
}

}  // namespace

std::int64_t planned_bytes(const Plan& plan, const DimValues& dims) {
  const std::vector<std::int64_t> one_copy(plan.steps.size(), 1);
  return plan_memory(plan, with_slice_dims(plan, dims), one_copy).bytes;
}

std::shared_ptr<const Plan> within_memory(std::shared_ptr<const Plan> plan, const Program& program,
                                          const DimValues& dims, std::int64_t limit, const MakePlan& make) {
  const std::int64_t bytes = planned_bytes(*plan, dims);
  if (bytes <= limit) return plan;
  const auto frugal = with_checkpoints(program);
  if (!frugal) return plan;
  try {
    std::shared_ptr<const Plan> smaller = make(*frugal);
    return planned_bytes(*smaller, dims) < bytes ? smaller : plan;
  } catch (const TypeError&) {  // a scan that reads itself at all earlier steps
    return plan;
  }
}

}  // namespace moxie
