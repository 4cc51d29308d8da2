#pragma once
// Tuning: which of some schedules runs a kernel fastest, measured once and kept in the kernel cache.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernel_cache.h"
#include "runtime/plan.h"

namespace moxie {

/// The schedule that is chosen without measuring, and a few around it. A kernel of a scan has one.
std::vector<Schedule> candidate_schedules(const LoweredKernel& kernel, const DimValues& dims, int lanes);

/// What a measurement holds for: a kernel, extents, this processor and a number of threads.
std::string tuning_key(std::string_view kernel_key, const DimValues& dims, int threads);
/// The candidate that an earlier measurement found fastest, by this process or another.
std::optional<Schedule> find_tuned(KernelCache& cache, std::string_view key, const std::vector<Schedule>& candidates);

/// One way to run a kernel.
struct Trial {
  std::function<void(const Schedule&)> prepare;
  std::function<void()> run;
};
/// The candidate that runs fastest, which is also stored. `candidates` begins with the default.
Schedule measure_schedules(KernelCache& cache, std::string_view key, const std::vector<Schedule>& candidates,
                           const Trial& trial);

}  // namespace moxie
