#pragma once
// Times of launches, for figures.
#include <chrono>
#include <map>

#include "runtime/dump/dump.h"
#include "runtime/launch_observer.h"

namespace moxie {

class LaunchTimer : public LaunchObserver {
 public:
  void before(const LoweredKernel&, const Plan&, std::span<void* const>, std::span<const std::int64_t>) override {
    start_ = std::chrono::steady_clock::now();
  }
  void after(const LoweredKernel& kernel) override;
  /// The least that a launch of each kernel of the plan took, in seconds, by the kernel's name.
  std::map<std::string, double> least_seconds(const Plan& plan) const;

 private:
  std::chrono::steady_clock::time_point start_;
  std::map<const LoweredKernel*, double> least_;
};

void add_measurements(Dump& dump, const std::map<std::string, double>& seconds);

}  // namespace moxie
