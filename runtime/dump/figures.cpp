#include "runtime/dump/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "runtime/cpu/host.h"
#include "runtime/dump/dump.h"

namespace moxie {
namespace {

/// Cycles of a vector unit for a function such as exp(): about 20 multiply-adds, two at a time.
constexpr double kSpecialCycles = 10;
constexpr double kAssumedGigahertz = 3;

double gigahertz() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("cpu MHz")) return std::strtod(line.c_str() + line.find(':') + 1, nullptr) / 1000;
  }
  return kAssumedGigahertz;
}

/// Bytes a second that one core copies, read and written, best of a few.
double copied_bytes_per_second() {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  constexpr int kTimes = 3;
  std::vector<char> from(kBytes, 1), to(kBytes);
  double best = 0;
  for (int k = 0; k < kTimes; ++k) {
    from[static_cast<std::size_t>(k)] = static_cast<char>(k);
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kBytes / taken.count());
  }
  return best;
}

/// A dash for 0: there is no such time.
std::string seconds_text(double seconds) {
  if (seconds == 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string resource_cells(const KernelFigures& figures) {
  if (!figures.resources) return fmt::format("{:>5} {:>7} {:>6} {:>6} {:>6}", "-", "-", "-", "-", "-");
  const cuda::KernelResources& has = *figures.resources;
  const std::string held = figures.occupancy ? fmt::format("{:.0f}%", 100 * figures.occupancy->fraction) : "-";
  return fmt::format("{:>5} {:>7} {:>6} {:>6} {:>6}", has.registers, has.shared_bytes, has.stack_bytes,
                     has.spill_store_bytes + has.spill_load_bytes, held);
}

}  // namespace

double intensity(const KernelCounts& counts) {
  const double bytes = counts.bytes_read + counts.bytes_written;
  return bytes > 0 ? (counts.f32_ops + counts.f64_ops + counts.special_ops) / bytes : 0;
}

const CpuRoof& cpu_roof() {
  static const CpuRoof roof = [] {
    const double cores = std::max(1U, std::thread::hardware_concurrency());
    const double vectors = 1e9 * gigahertz() * cores;  // a second, of one unit
    const double f32_lanes = host_machine().vector_bits / 32.0;
    return CpuRoof{4 * vectors * f32_lanes, 2 * vectors * f32_lanes, vectors * f32_lanes / kSpecialCycles,
                   copied_bytes_per_second()};
  }();
  return roof;
}

double gpu_roofline(const KernelCounts& counts, const GpuModel& model) {
  const double arithmetic =
      counts.f32_ops / flops_per_second(model, false) + counts.f64_ops / flops_per_second(model, true);
  const double special = counts.special_ops / special_ops_per_second(model);
  return std::max(
      {arithmetic, special, (counts.bytes_read + counts.bytes_written) / (1e9 * model.gigabytes_per_second)});
}

double cpu_roofline(const KernelCounts& counts, const CpuRoof& roof) {
  const double arithmetic =
      counts.f32_ops / roof.f32_flops + counts.f64_ops / roof.f64_flops + counts.special_ops / roof.special_ops;
  return std::max(arithmetic, (counts.bytes_read + counts.bytes_written) / roof.bytes);
}

std::string figures_table(const Dump& dump) {
  std::string text =
      fmt::format("{:32} {:>5} {:>7} {:>6} {:>6} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>10} {:>10}\n",
                  "kernel", "regs", "shared", "stack", "spills", "occup.", "operations", "special", "read", "written",
                  "ops/byte", "on GPU", "on this", "estimate", "measured");
  for (const KernelDump& kernel : dump.kernels) {
    const KernelFigures& f = kernel.figures;
    text += fmt::format("{:32} {} {:>10.4g} {:>10.4g} {:>10.4g} {:>10.4g} {:>8.3g} {:>10} {:>10} {:>10} {:>10}\n",
                        kernel.name, resource_cells(f), f.counts.f32_ops + f.counts.f64_ops, f.counts.special_ops,
                        f.counts.bytes_read, f.counts.bytes_written, intensity(f.counts),
                        seconds_text(f.gpu_roofline_seconds), seconds_text(f.cpu_roofline_seconds),
                        seconds_text(f.estimated_seconds.value_or(0)), seconds_text(f.measured_seconds.value_or(0)));
  }
  return text + fmt::format("GPU: {}{}\n", dump.gpu, dump.gpu_is_assumed ? ", assumed: figures of its data sheet" : "");
}

}  // namespace moxie
