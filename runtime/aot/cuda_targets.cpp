#include "runtime/aot/cuda_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "compiler/support/error.h"
#include "runtime/aot/call_checks.h"
#include "runtime/aot/cuda_driver.h"
#include "runtime/cuda/compiled_kernel.h"
#include "runtime/cuda/nvrtc.h"

namespace moxie::aot {
namespace {

using llvm_ir::Scalar;
using llvm_ir::typed;

// Attributes of a device, from cuda.h.
constexpr int kMajor = 75, kMinor = 76;

/// One public function: its name behind that of the formula's function, the name in a target's module, and parameters;
/// the target's function takes them from `first` on.
struct GpuEntryPoint {
  const char* name;
  const char* target_name;
  std::vector<std::string> parameters;
  std::size_t first = 0;
};

const std::vector<GpuEntryPoint>& entry_points() {
  static const std::vector<GpuEntryPoint> table = {
      {"_cuda_unload", "unload", {"ptr %gpu", "ptr %message"}},
      {"_cuda_workspace", "workspace", {"ptr %gpu", "ptr %arguments", "ptr %bytes", "ptr %message"}, 1},
      {"_cuda",
       "run",
       {"ptr %gpu", "ptr %arguments", "ptr %workspace", "i64 %workspace_bytes", "ptr %stream", "ptr %message"}},
      {"_cuda_check", "check", {"ptr %gpu", "ptr %workspace", "ptr %stream", "ptr %message"}, 1}};
  return table;
}

void require_gpu(FunctionWriter& w, const Pointer& message, const std::string& name) {
  w.leave_when(w.is_null({"%gpu"}), wrong_argument,
               [&] { complain(w, message, escaped(name) + ": the pointer to the loaded kernels is null"); });
}

/// Goes on with the target that was loaded.
void add_entry_point(ModuleText& module, const Interface& function, const GpuEntryPoint& entry,
                     const std::vector<GpuTarget>& targets) {
  const std::string name = function.name + entry.name;
  FunctionWriter w(module, fmt::format("define i32 @{}({}) nounwind", name, fmt::join(entry.parameters, ", ")));
  const Pointer message = begin_message(w);
  require_gpu(w, message, name);
  const Val loaded = w.load({"%gpu"});
  const std::vector<std::string> operands(entry.parameters.begin() + static_cast<std::ptrdiff_t>(entry.first),
                                          entry.parameters.end());
  for (std::size_t k = 0; k < targets.size(); ++k) {
    w.branch(w.is("eq", loaded, w.integer(static_cast<std::int64_t>(k) + 1)), [&] {
      w.leave_with(fmt::format("{}.{}", gpu_prefix(function.name, targets[k]), entry.target_name), operands);
    });
  }
  complain(w, message,
           escaped(fmt::format("{}: the kernels are not loaded; call {}_cuda_load() first", name, function.name)));
  w.finish(wrong_argument);
}

/// The capability of the current context's GPU, as 90 for sm_90.
Val current_architecture(FunctionWriter& w, const Pointer& message) {
  const Pointer numbers = w.words(3);
  const std::string what = "asking for the GPU of the current context";
  w.store(numbers, w.integer(0));
  call_driver(w, message, "cuCtxGetDevice", "ptr", "ptr " + numbers.text, what);
  const auto narrow = [&](const Pointer& from) {
    return w.ir().extend(w.ir().raw(Scalar::i32, 1, "load i32, ptr " + from.text), Scalar::i64, true);
  };
  const Val device = w.ir().extend(narrow(numbers), Scalar::i32, true);
  for (const auto& [place, attribute] : {std::pair(1, kMajor), std::pair(2, kMinor)})
    call_driver(w, message, "cuDeviceGetAttribute", "ptr, i32, i32",
                fmt::format("ptr {}, i32 {}, {}", w.word(numbers, place).text, attribute, typed(device)), what);
  return w.add(w.mul(narrow(w.word(numbers, 1)), w.integer(10)), narrow(w.word(numbers, 2)));
}

/// PTX runs on later GPUs, machine code on later ones of the same generation.
Val runs(FunctionWriter& w, const GpuTarget& target, const Val& architecture) {
  const Val reached = w.is("sge", architecture, w.integer(target.architecture));
  if (target.ptx) return reached;
  const std::int64_t next_generation = (target.architecture / 10 + 1) * 10;
  return w.both(reached, w.is("slt", architecture, w.integer(next_generation)));
}

void add_load(ModuleText& module, const Interface& function, const std::vector<GpuTarget>& targets) {
  const std::string name = function.name + "_cuda_load";
  FunctionWriter w(module, fmt::format("define i32 @{}(ptr %gpu, ptr %message) nounwind", name));
  const Pointer message = begin_message(w);
  require_gpu(w, message, name);
  w.store({"%gpu"}, w.integer(0));
  const Val architecture = current_architecture(w, message);
  // Targets are in the order of preference.
  for (std::size_t k = 0; k < targets.size(); ++k) {
    w.branch(runs(w, targets[k], architecture), [&] {
      w.store({"%gpu"}, w.integer(static_cast<std::int64_t>(k) + 1));
      w.leave_with(gpu_prefix(function.name, targets[k]) + ".load", {"ptr %gpu", "ptr %message"});
    });
  }
  std::vector<std::string> names;
  for (const GpuTarget& target : targets) names.push_back(target.name);
  complain(w, message,
           escaped(name) + ": the GPU is sm_%lld, but the library has code for " +
               fmt::format("{}; make it for cuda:compute_75 too, which all GPUs since run", fmt::join(names, ", ")),
           {architecture});
  w.finish(unsupported_machine);
}

std::vector<const LoweredKernel*> all_kernels(const Plan& plan) {
  std::vector<const LoweredKernel*> kernels;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) kernels.push_back(kernel);
  }
  return kernels;
}

/// With the schedules that machine code of the architecture wants.
std::vector<cuda::CompiledKernel> compile(const Plan& plan, const GpuTarget& target, const GpuCompilers& compilers) {
  std::vector<cuda::KernelRequest> requests;
  for (const LoweredKernel* kernel : all_kernels(plan)) requests.push_back({kernel, {}});
  KernelCache no_cache("");
  KernelOverrides no_overrides("");
  cuda::KernelBuilder builder{compilers.machine_code, target.architecture, no_cache, no_overrides};
  std::vector<cuda::CompiledKernel> kernels = cuda::compile_kernels(requests, builder);
  if (!target.ptx) return kernels;
  for (cuda::CompiledKernel& kernel : kernels)
    kernel.code = compilers.ptx.compile(kernel.kernel.text, {}, target.architecture);
  return kernels;
}

}  // namespace

GpuCompilers nvrtc_compilers(const std::vector<GpuTarget>& targets) {
  const auto nvrtc = std::make_shared<const cuda::Nvrtc>();
  for (const GpuTarget& target : targets) {
    const auto& known = nvrtc->architectures();
    if (std::ranges::find(known, target.architecture) != known.end()) continue;
    throw CompileError(
        fmt::format("unknown target 'cuda:{}': {} compiles for sm_{} (machine code) and compute_{} (PTX)", target.name,
                    nvrtc->version(), fmt::join(known, ", sm_"), fmt::join(known, ", compute_")));
  }
  cuda::Compiler ptx{nvrtc->version(), [nvrtc](const std::string& text, std::span<const std::string>,
                                               int architecture) { return nvrtc->compile_ptx(text, architecture); }};
  return {cuda::nvrtc_compiler(nvrtc), std::move(ptx)};
}

std::string gpu_prefix(const std::string& function, const GpuTarget& target) {
  return fmt::format("{}.{}", function, target.name);
}

ModuleText gpu_driver(const Plan& plan, const Interface& function, const GpuTarget& target,
                      const GpuCompilers& compilers) {
  ModuleText module;
  add_cuda_driver(module, plan, function, compile(plan, target, compilers), gpu_prefix(function.name, target));
  return module;
}

ModuleText gpu_entry_points(const std::vector<Interface>& functions, const std::vector<GpuTarget>& targets) {
  ModuleText module;
  for (const Interface& function : functions) {
    add_load(module, function, targets);
    for (const GpuEntryPoint& entry : entry_points()) add_entry_point(module, function, entry, targets);
  }
  return module;
}

std::vector<std::string> gpu_entry_symbols(const std::vector<Interface>& functions) {
  std::vector<std::string> symbols;
  for (const Interface& function : functions) {
    symbols.push_back(function.name + "_cuda_load");
    for (const GpuEntryPoint& entry : entry_points()) symbols.push_back(function.name + entry.name);
  }
  return symbols;
}

std::vector<std::string> gpu_driver_symbols(const std::string& prefix) {
  std::vector<std::string> symbols = {prefix + ".load"};
  for (const GpuEntryPoint& entry : entry_points()) symbols.push_back(fmt::format("{}.{}", prefix, entry.target_name));
  return symbols;
}

std::int64_t gpu_words(const Plan& plan) {
  return kHandlesBegin + kHandlesPerKernel * static_cast<std::int64_t>(all_kernels(plan).size());
}

}  // namespace moxie::aot
