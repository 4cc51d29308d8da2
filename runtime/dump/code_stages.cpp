#include "runtime/dump/code_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "compiler/loop/statement_lines.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/atomic_file.h"
#include "runtime/cache_file.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/plugin.h"
#include "runtime/cuda/compiled_kernel.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/device.h"
#include "runtime/dump/line_parsers.h"
#include "runtime/dump/plan_text.h"
#include "runtime/given_schedules.h"
#include "runtime/process.h"
#include "runtime/temporary_folder.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

/// What another compiler makes of a text, found in the cache where it was made before. A dump of known kernels then
/// takes no compiler.
template <class Make>
std::string make_once(KernelCache& cache, const std::string& key, const Make& make) {
  if (auto known = cache.find(key)) return std::move(known->object);
  std::string made = make();
  cache.store(key, {made, {}, {}});
  return made;
}

StageText missing(const std::string& stage, std::string extension, std::string why) {
  StageText text{stage, stage, std::move(extension)};
  text.missing = std::move(why);
  return text;
}

// ---- The GPU ----

/// What there is to compile CUDA text.
struct GpuTools {
  std::shared_ptr<const cuda::Nvrtc> nvrtc;
  std::string no_nvrtc;
  int architecture = 0;
};

GpuTools find_gpu_tools(const GpuModel& model, const std::string& why_not) {
  if (!why_not.empty()) return {nullptr, why_not, 0};
  try {
    auto nvrtc = std::make_shared<const cuda::Nvrtc>();
    const auto& known = nvrtc->architectures();
    if (known.empty() || model.architecture < known.front())
      return {nullptr,
              fmt::format("{} does not compile for {} (sm_{})", nvrtc->version(), model.name, model.architecture), 0};
    return {std::move(nvrtc), {}, model.architecture};
  } catch (const DeviceError& error) {
    return {nullptr, error.what(), 0};
  }
}

/// NVRTC with its PTX in the place of the source, which the cache then keeps too.
cuda::Compiler ptx_compiler(const std::shared_ptr<const cuda::Nvrtc>& nvrtc) {
  cuda::Compiler compiler = cuda::nvrtc_compiler(nvrtc);
  compiler.version += " with PTX";
  compiler.compile = [nvrtc](const std::string& text, std::span<const std::string>, int architecture) {
    cuda::Nvrtc::Compiled compiled = nvrtc->compile_with_ptx(text, architecture);
    compiled.entry.source = std::move(compiled.ptx);
    return std::move(compiled.entry);
  };
  return compiler;
}

/// Kernels with the schedules that the device `cuda` would take, compiled if there is a compiler and somebody wants to
/// see what it gives.
std::vector<cuda::CompiledKernel> gpu_kernels(const std::vector<cuda::KernelRequest>& requests, const GpuTools& tools,
                                              KernelCache& cache) {
  if (tools.nvrtc) {
    KernelOverrides none(fs::path{});
    cuda::KernelBuilder builder{ptx_compiler(tools.nvrtc), tools.architecture, cache, none};
    return cuda::compile_kernels(requests, builder);
  }
  std::vector<cuda::CompiledKernel> made;
  for (const auto& [kernel, limits, preference, wide_index] : requests) {
    made.push_back({kernel, choose_cuda_schedule(*kernel, limits, preference, wide_index), {}, {}, {}});
    made.back().kernel = cuda_kernel(*kernel, made.back().schedule);
  }
  return made;
}

int preamble_lines(const CudaKernel& kernel) {
  return count_lines(std::string_view(kernel.text).substr(0, kernel.own_begin));
}

/// The loops of a kernel as text: those of a GPU follow where they differ from those of the processor.
class LoopTexts {
 public:
  explicit LoopTexts(const DumpedKernel& kernel) {
    if (kernel.cpu) parts_.push_back({*kernel.cpu, print(kernel.cpu->program)});
    if (!kernel.gpu) return;
    Part on_gpu{kernel.gpu->threads ? for_threads(*kernel.gpu) : *kernel.gpu, {}};
    on_gpu.text = print(on_gpu.kernel.program);
    if (parts_.empty() || parts_.front().text != on_gpu.text) parts_.push_back(std::move(on_gpu));
  }

  /// Lines before those of a GPU.
  int lines_before_gpu() const { return parts_.size() > 1 ? count_lines(parts_.front().text + kOnGpu) : 0; }

  StageText stage(const OptimisedText& optimised) const {
    StageText stage{"loop", "loop", ".txt"};
    stage.origin = optimised.title;
    for (const Part& part : parts_) {
      if (!stage.text.empty()) stage.text += kOnGpu, stage.lines.emplace_back();
      stage.text += part.text;
      std::ranges::move(lines_of_definitions(part.text, definition_lines(part.kernel), optimised.text),
                        std::back_inserter(stage.lines));
    }
    return stage;
  }

 private:
  struct Part {
    LoweredKernel kernel;
    std::string text;
  };
  std::vector<Part> parts_;
};

StageText cuda_stage(const cuda::CompiledKernel& compiled, int lines_before, const GpuTools& tools) {
  const CudaKernel& kernel = compiled.kernel;
  StageText stage{"cuda", "cuda", ".cu"};
  stage.preamble = kernel.text.substr(0, kernel.own_begin);
  stage.text = kernel.own_text();
  stage.origin = "loop";
  stage.lines.assign(kernel.lines.begin() + preamble_lines(kernel), kernel.lines.end());
  for (auto& origins : stage.lines) {
    for (int& line : origins) line += lines_before;
  }
  if (tools.nvrtc) stage.file = cuda::cuda_kernel_file(kernel, cuda::nvrtc_compiler(tools.nvrtc), tools.architecture);
  return stage;
}

StageText traced_stage(const std::string& name, std::string extension, std::string origin, TracedText traced) {
  StageText stage{name, name, std::move(extension)};
  stage.text = std::move(traced.text);
  stage.origin = std::move(origin);
  stage.lines = std::move(traced.lines);
  return stage;
}

/// nvdisasm, or where it would be.
std::vector<std::string> disassemblers() {
  std::vector<std::string> names = {"nvdisasm"};
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* folder = std::getenv(variable)) names.push_back((fs::path(folder) / "bin" / "nvdisasm").string());
  }
  names.emplace_back("/usr/local/cuda/bin/nvdisasm");
  return names;
}

// ---- This processor ----

StageText llvm_output(const std::string& name, std::string extension, const LlvmModule& module, LlvmOutput want,
                      KernelCache& cache) {
  const VectorMachine& machine = host_machine();
  try {
    const std::string text = make_once(cache, name + " with lines\n" + cpu_cache_key(cache, module.text, machine),
                                       [&] { return compile_llvm(with_debug_lines(module.text), machine, want); });
    return traced_stage(name, std::move(extension), "llvm",
                        want == LlvmOutput::assembly ? trace_assembly(text) : trace_llvm(text));
  } catch (const CompileError& error) {
    return missing(name, std::move(extension), error.what());
  }
}

void add_gpu_stages(KernelDump& dump, const cuda::CompiledKernel& compiled, int lines_before, const GpuTools& tools,
                    KernelCache& cache, const DumpOptions& options) {
  if (is_wanted(options, "cuda")) dump.stages.push_back(cuda_stage(compiled, lines_before, tools));
  const bool has_code = !compiled.code.object.empty();
  if (is_wanted(options, "ptx")) {
    dump.stages.push_back(
        has_code ? traced_stage("ptx", ".txt", "cuda", trace_ptx(compiled.code.source, preamble_lines(compiled.kernel)))
                 : missing("ptx", ".txt", tools.no_nvrtc));
  }
  if (is_wanted(options, "sass"))
    dump.stages.push_back(has_code ? sass_stage(compiled.code.object, preamble_lines(compiled.kernel), cache)
                                   : missing("sass", ".txt", tools.no_nvrtc));
}

/// The stages of the other device, for a kernel that one device has alone.
void add_missing_stages(KernelDump& dump, Stage::Of device, const std::string& why, const DumpOptions& options) {
  for (const Stage& stage : dump_stages()) {
    if (stage.of == device && is_wanted(options, stage.name))
      dump.stages.push_back(missing(std::string(stage.name), ".txt", why));
  }
}

void add_gpu_figures(KernelFigures& figures, const cuda::CompiledKernel& compiled, const GpuTools& tools,
                     const GpuModel& model, const DimValues& dims) {
  figures.block_threads = compiled.schedule.lanes * compiled.schedule.rows;
  figures.counts = count_operations(*compiled.lowered, dims);
  figures.gpu_roofline_seconds = gpu_roofline(figures.counts, model);
  const auto report = cuda::resource_report(compiled.code.log);
  const auto found = report.find(compiled.kernel.entry);
  if (found == report.end()) {
    figures.no_resources = tools.nvrtc ? "the compiler's log says nothing of them" : tools.no_nvrtc;
  } else {
    figures.resources = found->second;
    figures.occupancy = occupancy(model, figures.block_threads, found->second.registers, found->second.shared_bytes);
  }
}

std::int64_t launches_of(const LoweredKernel& kernel, const LoweredSlices& slices, DimValues dims) {
  const LoweredScan* around = nullptr;
  for (const LoweredSliceStep& step : slices.steps) {
    const auto* scan = std::get_if<LoweredScan>(&step);
    const auto is_it = [&](const LoweredScanStep& part) { return std::get_if<LoweredKernel>(&part) == &kernel; };
    if (scan && std::ranges::any_of(scan->steps, is_it)) around = scan;
  }
  const std::int64_t count = slice_count(slices.slices, dims);
  if (!around) return count;
  std::int64_t launches = 0;
  for (std::int64_t number = 0; number < count; ++number) {
    set_slice_dims(slices.slices, number, dims);
    launches += evaluate(around->extent, dims);
  }
  return launches;
}

/// How often a run launches the kernel.
std::int64_t launches_of(const LoweredKernel& kernel, const Plan& plan, const DimValues& dims) {
  for (const PlanStep& step : plan.steps) {
    const std::vector<const LoweredKernel*> kernels = kernels_of(step);
    if (std::ranges::find(kernels, &kernel) == kernels.end()) continue;
    if (const auto* scan = std::get_if<LoweredScan>(&step)) return evaluate(scan->extent, dims);
    if (const auto* slices = std::get_if<LoweredSlices>(&step)) return launches_of(kernel, *slices, dims);
  }
  return 1;
}

void add_cpu_figures(KernelFigures& figures, const LoweredKernel& kernel, const Plan& plan, const DimValues& dims) {
  figures.launches = launches_of(kernel, plan, dims);
  figures.counts = count_operations(kernel, dims);
  figures.cpu_roofline_seconds = cpu_roofline(figures.counts, cpu_roof());
  const auto choice = std::ranges::find(plan.choices, kernel.program.name, &ScheduleChoice::kernel);
  if (choice == plan.choices.end()) return;
  figures.schedule = choice->chosen;
  figures.estimated_seconds = choice->seconds;
}

bool wants_any(const DumpOptions& options, std::initializer_list<std::string_view> stages) {
  return std::ranges::any_of(stages, [&](std::string_view stage) { return is_wanted(options, stage); });
}

}  // namespace

StageText sass_stage(const std::string& code, int skipped, KernelCache& cache) {
  if (!code.starts_with("\x7f"
                        "ELF"))
    return missing("sass", ".txt", "there is no machine code for this GPU: NVRTC gives PTX only");
  const TemporaryFolder folder;
  const fs::path cubin = folder.path() / "kernel.cubin", out = folder.path() / "sass";
  const auto disassemble = [&] {
    write_text_file(cubin, code);
    for (const std::string& program : disassemblers()) {
      const auto status = run_process({program, "--print-code", "--print-line-info-inline", cubin.string()}, out);
      if (!status) continue;
      if (*status == 0) return read_text_file(out);
      throw CompileError(fmt::format("{} does not accept the machine code: {}", program, read_text_file(out)));
    }
    throw DeviceError(
        "there is no nvdisasm; install the CUDA toolkit's package cuda-nvdisasm and set CUDA_PATH or PATH");
  };
  try {
    const std::string text = make_once(cache, "sass\n" + code, disassemble);
    return traced_stage("sass", ".txt", "cuda", trace_sass(text, skipped));
  } catch (const Error& error) {
    return missing("sass", ".txt", error.what());
  }
}

std::vector<StageText> cpu_stages(const std::string& kernel, const LlvmModule& module, KernelCache& cache,
                                  const DumpOptions& options) {
  std::vector<StageText> stages;
  if (is_wanted(options, "llvm")) {
    stages.push_back(traced_stage("llvm", ".ll", "loop", {module.text, module.lines}));
    stages.back().file = cpu_kernel_file(kernel, module.text, host_machine());
  }
  if (is_wanted(options, "llvm-opt"))
    stages.push_back(llvm_output("llvm-opt", ".txt", module, LlvmOutput::optimised_ir, cache));
  if (is_wanted(options, "asm")) stages.push_back(llvm_output("asm", ".s", module, LlvmOutput::assembly, cache));
  return stages;
}

std::vector<KernelDump> dump_kernels(const Compilation& compilation, const std::vector<DumpedKernel>& kernels,
                                     const OptimisedText& optimised, const DimValues& dims,
                                     const DumpOptions& options) {
  KernelCache cache(cache_directory({.cache_directory = options.cache_directory}));
  const GpuTools tools = find_gpu_tools(options.gpu, options.no_gpu_code);
  const CudaPreferences wanted = given_schedules(options.schedule).gpu;
  std::vector<cuda::KernelRequest> requests;
  std::vector<std::size_t> request_of(kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const LoweredKernel* kernel = kernels[k].gpu;
    if (!kernel) continue;
    request_of[k] = requests.size();
    requests.push_back({kernel, limits_of(options.gpu), wanted.of(kernels[k].name),
                        cuda::needs_wide_index(*compilation.gpu, *kernel, dims)});
  }
  const std::vector<cuda::CompiledKernel> on_gpu = gpu_kernels(requests, tools, cache);

  std::vector<KernelDump> dumps(kernels.size());
  in_parallel(kernels.size(), [&](std::size_t k) {
    const DumpedKernel& kernel = kernels[k];
    KernelDump& dump = dumps[k];
    dump.name = kernel.name;
    const LoopTexts loops(kernel);
    if (is_wanted(options, "loop")) dump.stages.push_back(loops.stage(optimised));
    if (kernel.gpu) {
      const cuda::CompiledKernel& compiled = on_gpu[request_of[k]];
      add_gpu_stages(dump, compiled, loops.lines_before_gpu(), tools, cache, options);
      add_gpu_figures(dump.figures, compiled, tools, options.gpu, dims);
    } else {
      const char* why =
          compilation.gpu ? "GPUs run other kernels, whose loops fusion arranges" : "the dump is for the device cpu";
      add_missing_stages(dump, Stage::Of::gpu, why, options);
      dump.figures.no_resources = why;
    }
    if (kernel.cpu) {
      if (wants_any(options, {"llvm", "llvm-opt", "asm"}))
        std::ranges::move(cpu_stages(dump.name, llvm_module(kernel.cpu->program, host_machine()), cache, options),
                          std::back_inserter(dump.stages));
      add_cpu_figures(dump.figures, *kernel.cpu, *compilation.cpu, dims);
    } else {
      add_missing_stages(
          dump, Stage::Of::cpu,
          compilation.cpu ? "this processor runs other kernels, by their estimated cost" : "the dump is for GPUs",
          options);
    }
  });
  return dumps;
}

}  // namespace moxie
