#include "runtime/dump/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace moxie {
namespace {

struct Unit {
  double size;
  const char* name;
};

/// Three digits of the number in the largest unit that is not above it.
std::string in_units(double number, std::span<const Unit> largest_first) {
  if (number <= 0) return "0";
  const auto unit = std::ranges::find_if(largest_first, [&](const Unit& u) { return number >= u.size * 0.9995; });
  const Unit& chosen = unit == largest_first.end() ? largest_first.back() : *unit;
  const double value = number / chosen.size;
  return fmt::format("{:.{}f} {}", value, value < 9.95 ? 1 : 0, chosen.name);
}

double seconds_of_launch(const KernelFigures& figures) {
  if (figures.measured_seconds) return *figures.measured_seconds;
  if (figures.estimated_seconds) return *figures.estimated_seconds;
  return figures.cpu_roofline_seconds > 0 ? figures.cpu_roofline_seconds : figures.gpu_roofline_seconds;
}

double seconds_of(const KernelFigures& figures) {
  return static_cast<double>(figures.launches) * seconds_of_launch(figures);
}

/// "shared loops, 100 launches of 73 us"
std::string schedule_text(const KernelFigures& figures) {
  if (figures.launches == 1) return figures.schedule;
  return fmt::format("{}, {} launches of {}", figures.schedule, figures.launches,
                     time_text(seconds_of_launch(figures)));
}

std::string kind_of_times(const Dump& dump) {
  const auto has = [&](const auto member) {
    return std::ranges::any_of(dump.kernels,
                               [&](const KernelDump& kernel) { return (kernel.figures.*member).has_value(); });
  };
  if (has(&KernelFigures::measured_seconds)) return "measured on this processor";
  if (has(&KernelFigures::estimated_seconds)) return "estimated for this processor";
  return "at least, by arithmetic and memory of the device";
}

/// A tenth of the whole is one mark.
std::string bar(double fraction) { return std::string(static_cast<std::size_t>(std::lround(fraction * 10)), '#'); }

}  // namespace

std::string count_text(double count) {
  static constexpr auto kUnits = std::to_array<Unit>({{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}});
  return count < 1000 ? fmt::format("{:.0f}", count) : in_units(count, kUnits);
}

std::string bytes_text(double bytes) {
  static constexpr auto kUnits =
      std::to_array<Unit>({{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}});
  return bytes < 1024 ? fmt::format("{:.0f} B", bytes) : in_units(bytes, kUnits);
}

std::string time_text(double seconds) {
  static constexpr auto kUnits = std::to_array<Unit>({{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}});
  return in_units(seconds, kUnits);
}

std::string summary_text(const Dump& dump) {
  std::string text;
  if (const StageText* formula = find_stage(dump.program, "ir")) text += formula->text + "\n";
  double all = 0;
  std::size_t width = 6;
  for (const KernelDump& kernel : dump.kernels) {
    all += seconds_of(kernel.figures);
    width = std::max(width, kernel.name.size());
  }
  std::vector<std::string> dims;
  for (const auto& [name, value] : dump.dims) {
    const bool is_assumed = std::ranges::find(dump.assumed, name) != dump.assumed.end();
    dims.push_back(fmt::format("{} = {}{}", name, value, is_assumed ? " (assumed)" : ""));
  }
  text += fmt::format("{} kernel{}{}{}; times are {}\n\n", dump.kernels.size(), dump.kernels.size() == 1 ? "" : "s",
                      dims.empty() ? "" : " for ", fmt::join(dims, ", "), kind_of_times(dump));
  text += fmt::format("{:<{}} {:>8} {:>5} {:<10} {:>10} {:>8} {:>8} {:>8}  {}\n", "kernel", width, "time", "", "",
                      "operations", "special", "read", "written", "schedule");
  for (const KernelDump& kernel : dump.kernels) {
    const KernelFigures& f = kernel.figures;
    const double seconds = seconds_of(f), fraction = all > 0 ? seconds / all : 0;
    text += fmt::format("{:<{}} {:>8} {:>3.0f} % {:<10} {:>10} {:>8} {:>8} {:>8}  {}\n", kernel.name, width,
                        time_text(seconds), 100 * fraction, bar(fraction),
                        count_text(f.counts.f32_ops + f.counts.f64_ops), count_text(f.counts.special_ops),
                        bytes_text(f.counts.bytes_read), bytes_text(f.counts.bytes_written), schedule_text(f));
  }
  return text;
}

}  // namespace moxie
