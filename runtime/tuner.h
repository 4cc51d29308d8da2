#pragma once
// Tuning: which of some ways to run a kernel is the fastest, measured once and kept in the kernel cache.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/kernel_cache.h"
#include "runtime/plan.h"

namespace moxie {

/// Ways to run a kernel, as the cache records them. The first is the one that is chosen without measuring.
using Ways = std::span<const std::string>;
struct Tuned {
  std::size_t way = 0;
  std::string reason;
  bool operator==(const Tuned&) const = default;
};
struct Trial {
  std::function<void(std::size_t way)> prepare;
  std::function<double()> run;  // gives the milliseconds that it took
};

/// What a measurement holds for: a kernel, extents and a machine.
std::string tuning_key(std::string_view kernel_key, const DimValues& dims, std::string_view machine);
/// The way that an earlier measurement found fastest, by this process or another.
std::optional<Tuned> find_tuned(KernelCache& cache, std::string_view key, Ways ways);
/// The way that runs fastest, which is also stored.
Tuned measure(KernelCache& cache, std::string_view key, Ways ways, const Trial& trial);

// ---- kernels of the CPU ----

/// This processor and a number of threads, for tuning_key().
std::string processor_of(int threads);
/// The partition that is chosen without measuring, and a few around it.
std::vector<Partition> candidate_partitions(const LoweredKernel& kernel, const DimValues& dims, int lanes);

std::vector<std::string> records_of(const std::vector<Partition>& partitions);

}  // namespace moxie
