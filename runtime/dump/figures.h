#pragma once
// What a kernel takes and does, in numbers.
#include <optional>
#include <string>

#include "runtime/cuda/gpu_models.h"
#include "runtime/cuda/resource_report.h"
#include "runtime/dump/kernel_counts.h"

namespace moxie {

struct KernelFigures {
  std::optional<cuda::KernelResources> resources;  // on the GPU
  std::string no_resources;                        // why there are none
  int block_threads = 0;
  std::optional<Occupancy> occupancy;
  KernelCounts counts;                      // of a launch; on the CPU where it runs the kernel, else on the GPU
  std::int64_t launches = 1;                // of one run: in a scan, one at every step
  double gpu_roofline_seconds = 0;          // no launch on the GPU takes less; 0 for kernels that GPUs do not run
  double cpu_roofline_seconds = 0;          // on all cores of this processor; 0 for kernels that it does not run
  std::string schedule;                     // on the CPU
  std::optional<double> estimated_seconds;  // that the schedule was chosen by
  std::optional<double> measured_seconds;   // the least of what was measured where it ran
  bool operator==(const KernelFigures&) const = default;
};

/// Operations for each byte that is read or written.
double intensity(const KernelCounts& counts);

/// What this processor could do at best, by its vector width, its clock and a short measurement of its memory.
struct CpuRoof {
  double f32_flops = 0, f64_flops = 0, special_ops = 0, bytes = 0;  // a second
};
const CpuRoof& cpu_roof();

double gpu_roofline(const KernelCounts& counts, const GpuModel& model);
double cpu_roofline(const KernelCounts& counts, const CpuRoof& roof);

/// A table of lines, one for each kernel, and whose figures they are.
struct Dump;
std::string figures_table(const Dump& dump);

}  // namespace moxie
