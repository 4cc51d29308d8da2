#include "runtime/dump/dump_compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/dump/text_diff.h"

namespace moxie {
namespace {

struct Figure {
  const char* name;
  double (*value)(const KernelFigures& figures);
};

template <auto Member>
double resource(const KernelFigures& figures) {
  return figures.resources ? static_cast<double>((*figures.resources).*Member) : 0;
}

template <auto Member>
double count(const KernelFigures& figures) {
  return figures.counts.*Member;
}

constexpr Figure kComparedFigures[] = {
    {"registers", resource<&cuda::KernelResources::registers>},
    {"shared bytes", resource<&cuda::KernelResources::shared_bytes>},
    {"stack bytes", resource<&cuda::KernelResources::stack_bytes>},
    {"spill store bytes", resource<&cuda::KernelResources::spill_store_bytes>},
    {"spill load bytes", resource<&cuda::KernelResources::spill_load_bytes>},
    {"occupancy", [](const KernelFigures& f) { return f.occupancy ? f.occupancy->fraction : 0; }},
    {"f32 operations", count<&KernelCounts::f32_ops>},
    {"f64 operations", count<&KernelCounts::f64_ops>},
    {"special operations", count<&KernelCounts::special_ops>},
    {"integer operations", count<&KernelCounts::integer_ops>},
    {"bytes read", count<&KernelCounts::bytes_read>},
    {"bytes written", count<&KernelCounts::bytes_written>},
    {"roofline on the GPU", [](const KernelFigures& f) { return f.gpu_roofline_seconds; }},
    {"estimated seconds", [](const KernelFigures& f) { return f.estimated_seconds.value_or(0); }},
    {"measured seconds", [](const KernelFigures& f) { return f.measured_seconds.value_or(0); }},
};

std::string compare_figures(const KernelFigures& before, const KernelFigures& after) {
  std::string text;
  for (const Figure& figure : kComparedFigures) {
    const double from = figure.value(before), to = figure.value(after);
    if (from == to) continue;
    const std::string share = from != 0 ? fmt::format(" ({:+.1f} %)", 100 * (to - from) / from) : "";
    text += fmt::format("  {}: {:g} -> {:g}{}\n", figure.name, from, to, share);
  }
  return text;
}

/// Lines that went and came.
std::string summary(const std::string& diff) {
  int went = 0, came = 0;
  for (const std::string_view line : split_lines(diff)) {
    went += line.starts_with('-');
    came += line.starts_with('+');
  }
  return fmt::format("{} lines went, {} came", went, came);
}

std::string compare_texts(const std::vector<StageText>& before, const std::vector<StageText>& after,
                          const DumpOptions& options) {
  std::string text;
  bool shown = false;
  for (const StageText& now : after) {
    const StageText* then = find_stage(before, now.title);
    if (!then || then->text == now.text || !is_wanted(options, now.stage)) continue;
    const std::string diff = text_diff(then->text, now.text);
    text += fmt::format("  {}: {}\n", now.title, summary(diff));
    // Later stages mostly follow the first.
    if (!options.stages.empty() || !shown) text += diff;
    shown = true;
  }
  return text;
}

const KernelDump* find_kernel(const Dump& dump, const std::string& name) {
  const auto found = std::ranges::find(dump.kernels, name, &KernelDump::name);
  return found == dump.kernels.end() ? nullptr : &*found;
}

/// Titles of passes that changed something in one of the dumps only.
std::string compare_passes(const Dump& before, const Dump& after) {
  std::string text;
  for (const StageText& stage : before.program) {
    if (!find_stage(after.program, stage.title)) text += fmt::format("{} is in the first dump only\n", stage.title);
  }
  for (const StageText& stage : after.program) {
    if (!find_stage(before.program, stage.title)) text += fmt::format("{} is in the second dump only\n", stage.title);
  }
  return text;
}

}  // namespace

std::string compare_dumps(const Dump& before, const Dump& after, const DumpOptions& options) {
  std::string text = compare_passes(before, after);
  const std::string program = compare_texts(before.program, after.program, options);
  if (!program.empty()) text += "program\n" + program;
  for (const KernelDump& kernel : before.kernels) {
    if (matches(kernel.name, options.kernels) && !find_kernel(after, kernel.name))
      text += fmt::format("kernel {} went\n", kernel.name);
  }
  for (const KernelDump& kernel : after.kernels) {
    if (!matches(kernel.name, options.kernels)) continue;
    const KernelDump* then = find_kernel(before, kernel.name);
    if (!then) {
      text += fmt::format("kernel {} came\n", kernel.name);
      continue;
    }
    const std::string changes =
        compare_figures(then->figures, kernel.figures) + compare_texts(then->stages, kernel.stages, options);
    if (!changes.empty()) text += fmt::format("kernel {}\n{}", kernel.name, changes);
  }
  return text;
}

}  // namespace moxie
