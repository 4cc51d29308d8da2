#include "runtime/dump/launch_timer.h"

#include <algorithm>

namespace moxie {

void LaunchTimer::after(const LoweredKernel& kernel) {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
  const auto [place, fresh] = least_.try_emplace(&kernel, taken.count());
  if (!fresh) place->second = std::min(place->second, taken.count());
}

std::map<std::string, double> LaunchTimer::least_seconds(const Plan& plan) const {
  std::map<std::string, double> seconds;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      if (const auto found = least_.find(kernel); found != least_.end()) seconds[kernel->program.name] = found->second;
    }
  }
  return seconds;
}

void add_measurements(Dump& dump, const std::map<std::string, double>& seconds) {
  for (KernelDump& kernel : dump.kernels) {
    if (const auto found = seconds.find(kernel.name); found != seconds.end())
      kernel.figures.measured_seconds = found->second;
  }
}

}  // namespace moxie
