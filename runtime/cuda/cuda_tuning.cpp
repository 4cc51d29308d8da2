#include "runtime/cuda/cuda_tuning.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moxie::cuda {
namespace {

/// Alternatives of one word at a time: their product would take long, and gives little more.
constexpr std::pair<int CudaPreference::*, std::array<int, 4>> kAlternatives[] = {
    {&CudaPreference::team, {1, 32, 128, 256}},
    {&CudaPreference::threads, {64, 128, 256, 512}},
    {&CudaPreference::width, {1, 2, 4, 4}},
    {&CudaPreference::blocks, {1, 2, 4, 8}},
};

}  // namespace

std::vector<CudaPreference> candidate_preferences(const LoweredKernel& kernel, const CudaPreference& wanted,
                                                  const GpuLimits& limits, const DimValues& dims) {
  std::vector<CudaPreference> candidates;
  std::vector<std::pair<CudaSchedule, CudaGrid>> known;
  const auto add = [&](const CudaPreference& preference) {
    CudaSchedule schedule = choose_cuda_schedule(kernel, limits, preference);
    const CudaGrid grid = choose_cuda_grid(kernel, schedule, limits, dims);
    schedule.blocks = 0;  // shows in the grid
    std::pair way(std::move(schedule), grid);
    if (std::ranges::find(known, way) != known.end()) return;
    known.push_back(std::move(way));
    candidates.push_back(preference);
  };
  add(wanted);
  for (const auto& [word, values] : kAlternatives) {
    for (const int value : values) {
      CudaPreference other = wanted;
      other.*word = value;
      add(other);
    }
  }
  return candidates;
}

Stopwatch::Stopwatch(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {
  gpu_->check(gpu_->driver().EventCreate(&begin_, 0), "making an event");
  gpu_->check(gpu_->driver().EventCreate(&end_, 0), "making an event");
}

Stopwatch::~Stopwatch() {
  for (const Event event : {begin_, end_}) {
    if (event != nullptr) gpu_->driver().EventDestroy(event);
  }
}

void Stopwatch::record(Event event) {
  gpu_->check(gpu_->driver().EventRecord(event, gpu_->stream()), "recording an event");
}

double Stopwatch::stop() {
  record(end_);
  gpu_->check(gpu_->driver().EventSynchronize(end_), "waiting for a kernel that is measured");
  float milliseconds = 0;
  gpu_->check(gpu_->driver().EventElapsedTime(&milliseconds, begin_, end_), "measuring a kernel");
  return milliseconds;
}

}  // namespace moxie::cuda
