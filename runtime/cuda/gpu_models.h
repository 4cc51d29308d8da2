#pragma once
// GPU models, and how many blocks of a kernel they hold at once: by name, from public figures, so that no GPU is
// needed; or as a driver tells.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "compiler/codegen/cuda/cuda_schedule.h"

namespace moxie {

/// What one multiprocessor of an architecture has.
struct GpuArchitecture {
  int number;   // 90 for sm_90
  int threads;  // at once
  int blocks;   // at once
  std::int64_t shared_bytes;
  int f32_lanes, f64_lanes;    // fused multiply-adds a cycle
  std::int64_t block_reserve;  // shared memory that the system takes from each block
};

struct GpuModel {
  std::string name;
  int architecture = 0;
  int multiprocessors = 0;
  double clock_ghz = 0;  // boost
  double gigabytes_per_second = 0;
};

std::span<const GpuModel> gpu_models();
/// Throws TypeError for an unknown name, with the list of those there are. Case does not matter.
const GpuModel& gpu_model(std::string_view name);
/// The newest known one that is no newer than the model's.
const GpuArchitecture& gpu_architecture(const GpuModel& model);

/// What schedules may count on.
GpuLimits limits_of(const GpuModel& model);

struct Occupancy {
  int blocks = 0;       // of a multiprocessor
  double fraction = 0;  // of its threads
  std::string limit;    // what more blocks would exceed: "registers"
  bool operator==(const Occupancy&) const = default;
};
Occupancy occupancy(const GpuModel& model, int threads_per_block, std::int64_t registers, std::int64_t shared_bytes);

/// Operations a second: multiply-adds count as two.
double flops_per_second(const GpuModel& model, bool is_double);
double special_ops_per_second(const GpuModel& model);

}  // namespace moxie
