#include "runtime/plan_cache.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "runtime/cache_key.h"
#include "runtime/machine_file.h"
#include "runtime/plan_bytes.h"

namespace moxie {

extern const char* const kPlannerDigest;  // of the sources of the compiler, see runtime/CMakeLists.txt

std::string plan_key(const Program& program, const Checks& checks, const PlanTarget& target,
                     const std::vector<std::string>& without) {
  std::string key = fmt::format("{}compiler {}\n", key_head("plan"), kPlannerDigest);
  key += fmt::format("checks {} {} {}, products {}\n", checks.nan, checks.negvar, checks.bounds,
                     static_cast<int>(target.products));
  for (const std::string& pass : without) key += fmt::format("without {}\n", pass);
  for (const auto& [name, schedule] : target.given) key += fmt::format("{}: {}\n", name, print(schedule));
  if (target.is_scheduled()) {
    for (const auto& [name, value] : target.extents) key += fmt::format("{}={}\n", name, value);
  }
  if (target.machine) key += to_json(*target.machine);
  if (target.gpu)
    key += fmt::format("gpu of {} x {} threads, {} bytes shared, slices of {}\n", target.gpu->multiprocessors,
                       target.gpu->threads, target.gpu->block_shared_bytes, target.gpu->slice_bytes);
  return key + '\n' + to_bytes(program);
}

namespace {

std::optional<Plan> find_plan(KernelCache& cache, const std::string& key, const Program& program) {
  const auto entry = cache.find(key);
  if (!entry) return std::nullopt;
  try {
    return plan_from_bytes(entry->object, program);
  } catch (const CacheError&) {
    cache.discard(key);
    return std::nullopt;
  }
}

}  // namespace

std::shared_ptr<const Plan> find_or_make_plan(KernelCache* cache, Planner& planner, const PlanTarget& target,
                                              PlanningCounts& counts) {
  const std::string key = cache ? plan_key(planner.program(), planner.checks(), target, planner.without()) : "";
  if (auto found = cache ? find_plan(*cache, key, planner.program()) : std::nullopt) {
    ++counts.found;
    return std::make_shared<const Plan>(std::move(*found));
  }
  auto made = std::make_shared<const Plan>(planner.plan(target));
  ++counts.made;
  counts.candidates += made->candidates;
  if (cache)
    cache->store(key, {to_bytes(*made), std::string(kPlanMark) + made->program.name + "\n" + print(*made), {}});
  return made;
}

}  // namespace moxie
