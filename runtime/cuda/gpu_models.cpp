#include "runtime/cuda/gpu_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <limits>
#include <vector>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::int64_t kRegisters = 65536;   // of a multiprocessor, on all of these
constexpr std::int64_t kRegisterUnit = 256;  // allocated at once, for a warp
constexpr std::int64_t kSharedUnit = 128;
constexpr int kSpecialLanes = 16;  // a cycle and multiprocessor, on all of these

constexpr std::array kArchitectures = {
    GpuArchitecture{75, 1024, 16, 64 << 10, 64, 2, 0},       GpuArchitecture{80, 2048, 32, 164 << 10, 64, 32, 1024},
    GpuArchitecture{86, 1536, 16, 100 << 10, 128, 2, 1024},  GpuArchitecture{89, 1536, 24, 100 << 10, 128, 2, 1024},
    GpuArchitecture{90, 2048, 32, 228 << 10, 128, 64, 1024}, GpuArchitecture{100, 2048, 32, 228 << 10, 128, 64, 1024},
    GpuArchitecture{120, 1536, 24, 100 << 10, 128, 2, 1024},
};

const std::array kModels = {
    GpuModel{"T4", 75, 40, 1.59, 320},         GpuModel{"A100", 80, 108, 1.41, 2039},
    GpuModel{"RTX3090", 86, 82, 1.70, 936},    GpuModel{"L4", 89, 58, 2.04, 300},
    GpuModel{"RTX4090", 89, 128, 2.52, 1008},  GpuModel{"H100", 90, 132, 1.98, 3350},
    GpuModel{"H200", 90, 132, 1.98, 4800},     GpuModel{"B200", 100, 148, 1.97, 8000},
    GpuModel{"RTX5090", 120, 170, 2.41, 1792},
};

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::span<const GpuModel> gpu_models() { return kModels; }

const GpuModel& gpu_model(std::string_view name) {
  const auto known =
      std::ranges::find_if(kModels, [&](const GpuModel& model) { return same_letters(model.name, name); });
  if (known != kModels.end()) return *known;
  std::vector<std::string_view> names;
  for (const GpuModel& model : kModels) names.push_back(model.name);
  throw TypeError(fmt::format("there is no GPU '{}'; known are {}", name, fmt::join(names, ", ")));
}

const GpuArchitecture& gpu_architecture(const GpuModel& model) {
  const auto newer = std::ranges::upper_bound(kArchitectures, model.architecture, {}, &GpuArchitecture::number);
  return newer == kArchitectures.begin() ? *newer : *std::prev(newer);
}

GpuLimits limits_of(const GpuModel& model) {
  GpuLimits limits;
  limits.multiprocessors = model.multiprocessors;
  limits.threads = gpu_architecture(model).threads;
  return limits;
}

Occupancy occupancy(const GpuModel& model, int threads_per_block, std::int64_t registers, std::int64_t shared_bytes) {
  const GpuArchitecture& has = gpu_architecture(model);
  const std::int64_t warps = (threads_per_block + kWarp - 1) / kWarp;
  const std::int64_t warp_registers = rounded_up(std::max<std::int64_t>(registers, 1) * kWarp, kRegisterUnit);
  const std::int64_t block_shared = rounded_up(shared_bytes + has.block_reserve, kSharedUnit);
  struct Limit {
    const char* name;
    std::int64_t blocks;
  };
  const std::array limits = {
      Limit{"threads", has.threads / (warps * kWarp)},
      Limit{"registers", kRegisters / warp_registers / warps},
      Limit{"shared memory",
            block_shared > 0 ? has.shared_bytes / block_shared : std::numeric_limits<std::int64_t>::max()},
      Limit{"blocks", has.blocks},
  };
  const Limit& least = *std::ranges::min_element(limits, {}, &Limit::blocks);
  const double fraction = static_cast<double>(least.blocks * warps * kWarp) / has.threads;
  return {static_cast<int>(least.blocks), fraction, least.name};
}

double flops_per_second(const GpuModel& model, bool is_double) {
  const GpuArchitecture& has = gpu_architecture(model);
  return 2e9 * model.clock_ghz * model.multiprocessors * (is_double ? has.f64_lanes : has.f32_lanes);
}

double special_ops_per_second(const GpuModel& model) {
  return 1e9 * model.clock_ghz * model.multiprocessors * kSpecialLanes;
}

}  // namespace moxie
