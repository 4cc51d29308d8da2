#pragma once
// What --tune tries on a GPU, and how long it takes there.
#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "runtime/cuda/gpu.h"
#include "runtime/plan.h"

namespace moxie::cuda {

/// What is wanted of the kernel, and preferences next to it that give another schedule or grid each.
std::vector<CudaPreference> candidate_preferences(const LoweredKernel& kernel, const CudaPreference& wanted,
                                                  const GpuLimits& limits, const DimValues& dims);

/// Milliseconds that the GPU takes for what is enqueued between the two calls.
class Stopwatch {
 public:
  explicit Stopwatch(std::shared_ptr<Gpu> gpu);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start() { record(begin_); }
  /// Waits for the GPU.
  double stop();

 private:
  void record(Event event);

  std::shared_ptr<Gpu> gpu_;
  Event begin_ = nullptr, end_ = nullptr;
};

}  // namespace moxie::cuda
