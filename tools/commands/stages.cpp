#include "tools/commands/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/codegen/cuda/cuda_text.h"
#include "compiler/codegen/llvm/llvm_text.h"
#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/plugin.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

std::string source_text(const Compilation& compilation) { return print(compilation.source); }
std::string task_text(const Compilation& compilation) { return print(compilation.task); }

/// Every pass that changed something, with its result.
std::string rewrite_text(const Compilation& compilation) {
  std::string text;
  Program before = compilation.task;
  optimise(compilation.task, [&](const Pass& pass, const Program& result) {
    const bool changed = !(result == before);
    text += fmt::format("# ---- {}: {}{}\n", pass.name, pass.purpose, changed ? "" : " (no change)");
    if (changed) text += print(result) + "\n";
    before = result;
  });
  return text;
}

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

std::string describe(const MatrixProduct& product) {
  return fmt::format("matrix product {} = {} x {}\n", product.definition.name, product.left, product.right);
}

std::string describe(const ScanLoop& scan) {
  std::string text = fmt::format("scan {} over {}{}\n", scan.name, print(scan.extent), scan.backwards ? ", backwards" : "");
  for (const ScanStep& step : scan.steps) text += std::visit([](const auto& part) { return describe(part); }, step);
  return text;
}

std::string fuse_text(const Compilation& compilation) {
  std::string text;
  for (const Step& step : compilation.plan.fused.steps) {
    text += std::visit([](const auto& part) { return describe(part); }, step);
  }
  return text;
}

template <class Text>
std::string for_each_kernel(const Compilation& compilation, const Text& text_of) {
  std::string text;
  for (const PlanStep& step : compilation.plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) text += text_of(*kernel) + "\n";
  }
  return text;
}

std::string schedule_of(const LoweredKernel& kernel, const DimValues& dims) {
  const int lanes = lanes_for(kernel.program, host_machine());
  try {
    const Schedule schedule = choose_schedule(kernel, dims, lanes);
    return fmt::format("{} lanes, {} tiles, {} chunks{}{}", lanes, schedule.tiles, schedule.chunks,
                       schedule.reason.empty() ? "" : ": ", schedule.reason);
  } catch (const ShapeError&) {
    return fmt::format("{} lanes; tiles and chunks depend on dynamic dims (give them with --dim)", lanes);
  }
}

CudaSchedule cuda_schedule_of(const LoweredKernel& kernel) {
  const CudaPreferences preferences = parse_cuda_preferences(switch_value("MOXIE_SCHEDULE"));
  return choose_cuda_schedule(kernel, GpuLimits{}, preferences.of(kernel.program.name));
}

std::string schedule_text(const Compilation& compilation) {
  std::string text = print(compilation.plan);
  return text + for_each_kernel(compilation, [&](const LoweredKernel& kernel) {
           return fmt::format("{0}: {1}\n{0} on a GPU: {2}", kernel.program.name, schedule_of(kernel, compilation.dims), print(cuda_schedule_of(kernel)));
         });
}

std::string loop_text(const Compilation& compilation) {
  return for_each_kernel(compilation, [](const LoweredKernel& kernel) { return print(kernel.program); });
}

std::string generated_text(const Compilation& compilation) {
  std::string text;
  for (const KernelFile& file : kernel_files(compilation)) text += fmt::format("; {}\n{}\n", file.name, file.text);
  return text;
}

std::string assembly_text(const Compilation& compilation) {
  return for_each_kernel(compilation, [](const LoweredKernel& kernel) {
    return compile_llvm(llvm_text(kernel.program, host_machine()), host_machine(), LlvmOutput::assembly);
  });
}

std::string cuda_stage_text(const Compilation& compilation) {
  return for_each_kernel(compilation, [](const LoweredKernel& kernel) {
    return std::string(cuda_kernel(kernel, cuda_schedule_of(kernel)).own_text());
  });
}

constexpr std::array kStages = {
    Stage{"ir", "the Program as written", source_text},
    Stage{"diff", "the Program that is compiled: gradients added, static dims put in", task_text},
    Stage{"rewrite", "the Program after every pass that changed it", rewrite_text},
    Stage{"fuse", "kernels and library calls", fuse_text},
    Stage{"schedule", "how kernels are shared out", schedule_text},
    Stage{"loop", "every kernel as explicit loops", loop_text},
    Stage{"cuda", "every kernel as CUDA C++", cuda_stage_text},
    Stage{"llvm", "every kernel as LLVM IR", generated_text},
    Stage{"asm", "every kernel as machine code for this processor", assembly_text},
};

}  // namespace

std::span<const Stage> stages() { return kStages; }

std::vector<KernelFile> kernel_files(const Compilation& compilation) {
  std::vector<KernelFile> files;
  for (const PlanStep& step : compilation.plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      std::string text = llvm_text(kernel->program, host_machine());
      files.push_back({cpu_kernel_file(kernel->program.name, text, host_machine()), std::move(text)});
    }
  }
  return files;
}

}  // namespace moxie
