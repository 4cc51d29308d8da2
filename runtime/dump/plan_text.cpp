#include "runtime/dump/plan_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/cpu/host.h"

namespace moxie {
namespace {

std::string describe(const KernelRoot& root) {
  std::string axes;
  for (const AxisDecl& axis : root.definition.axes) axes += (axes.empty() ? "" : ",") + axis.name;
  const char* how = root.accumulate ? "accumulates" : root.stored ? "stores" : "computes";
  return fmt::format("  {} {}{}\n", how, root.definition.name, axes.empty() ? "" : "[" + axes + "]");
}

/// The name of the axis that a shared loop runs over.
std::string loop_name(const Kernel& kernel, const std::optional<LoopIndex>& loop) {
  if (!loop) return "none";
  for (const KernelRoot& root : kernel.roots) {
    const auto axis = std::ranges::find(root.subscripts, Affine(loop->symbol));
    if (axis != root.subscripts.end())
      return root.definition.axes[static_cast<std::size_t>(axis - root.subscripts.begin())].name;
  }
  return "of a sum";
}

std::string describe(const Kernel& kernel) {
  std::string text =
      fmt::format("kernel {}: vector loop {}, sample loop {}{}{}\n", kernel.name, loop_name(kernel, kernel.vector),
                  loop_name(kernel, kernel.sample), kernel.reason.empty() ? "" : "; ", kernel.reason);
  for (const KernelRoot& root : kernel.roots) text += describe(root);
  return text;
}

std::string describe(const MatrixProduct& product) { return fmt::format("matrix product {}\n", product_text(product)); }

std::string describe(const AlgebraCall& call) { return fmt::format("library {}\n", call_text(call)); }

std::string describe(const OrderedSumCall& call) { return call_text(call) + "\n"; }

std::string describe(const ScanLoop& scan) {
  std::string text =
      fmt::format("scan {} over {}{}\n", scan.name, print(scan.extent), scan.backwards ? ", backwards" : "");
  for (const ScanStep& step : scan.steps) text += std::visit([](const auto& part) { return describe(part); }, step);
  return text;
}

std::string cpu_partition(const LoweredKernel& kernel, const DimValues& dims) {
  const int lanes = lanes_for(kernel.program, host_machine());
  try {
    const Partition partition = choose_partition(kernel, dims, lanes);
    return fmt::format("{} lanes, {} tiles, {} chunks{}{}", lanes, partition.tiles, partition.chunks,
                       partition.reason.empty() ? "" : ": ", partition.reason);
  } catch (const ShapeError&) {
    return fmt::format("{} lanes; tiles and chunks depend on dynamic dims (give them with --dim)", lanes);
  }
}

std::string describe(const ScheduleChoice& choice) {
  std::string text = fmt::format("{}: {}\n  estimate: {}\n", choice.kernel, choice.chosen, choice.reason);
  for (const std::string& alternative : choice.alternatives) text += fmt::format("  instead of: {}\n", alternative);
  return text;
}

bool computes(const Plan& plan, const std::string& name) {
  const auto writes = [&](const BufferUse& use) { return use.written && use.tensor == name; };
  return std::ranges::any_of(plan.steps, [&](const PlanStep& step) {
    return std::ranges::any_of(kernels_of(step), [&](const LoweredKernel* kernel) {
      return kernel->program.name == name || std::ranges::any_of(kernel->uses, writes);
    });
  });
}

std::string cpu_schedule(const Plan& plan, const DimValues& dims, const GivenSchedules& given) {
  std::string text = print(plan);
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      const auto choice = std::ranges::find(plan.choices, kernel->program.name, &ScheduleChoice::kernel);
      text += choice == plan.choices.end() ? kernel->program.name + ":\n" : describe(*choice);
      text += fmt::format("  partition: {}\n", cpu_partition(*kernel, dims));
    }
  }
  for (const auto& [name, schedule] : given) {
    if (!computes(plan, name))
      text += fmt::format("the schedule given for {} is not used: no kernel stores it\n", name);
  }
  return text;
}

std::string gpu_schedule(const Plan& plan, const GpuLimits& limits, const CudaPreferences& wanted) {
  std::string text = print(plan);
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      const std::string schedule = print(choose_cuda_schedule(*kernel, limits, wanted.of(kernel->program.name)));
      text += fmt::format("{} on a GPU: {}\n", kernel->program.name, schedule);
      const auto choice = std::ranges::find(plan.choices, kernel->program.name, &ScheduleChoice::kernel);
      if (choice == plan.choices.end()) continue;
      text += fmt::format("  {}: {:.3g} us by estimate; {}\n", choice->chosen, choice->seconds * 1e6, choice->reason);
    }
  }
  return text;
}

std::string fuse_text(const Plan& plan) {
  std::string text;
  for (const Step& step : plan.fused.steps) {
    text += std::visit([](const auto& part) { return describe(part); }, step);
  }
  return text;
}

std::string join(const std::string& cpu, const std::string& gpu) {
  if (cpu.empty() || cpu == gpu) return gpu;
  return gpu.empty() ? cpu : cpu + kOnGpu + gpu;
}

}  // namespace

std::string fuse_text(const Compilation& compilation) {
  return join(compilation.cpu ? fuse_text(*compilation.cpu) : "", compilation.gpu ? fuse_text(*compilation.gpu) : "");
}

std::string schedule_text(const Compilation& compilation, const DimValues& dims, const GpuLimits& limits,
                          const GivenByUser& given) {
  return join(compilation.cpu ? cpu_schedule(*compilation.cpu, dims, given.nests) : "",
              compilation.gpu ? gpu_schedule(*compilation.gpu, limits, given.gpu) : "");
}

}  // namespace moxie
