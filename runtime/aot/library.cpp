#include "runtime/aot/library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "compiler/codegen/llvm/llvm_text.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/aot/archive.h"
#include "runtime/aot/cpu_driver.h"
#include "runtime/aot/cpu_levels.h"
#include "runtime/aot/cuda_targets.h"
#include "runtime/aot/header.h"
#include "runtime/aot/manifest.h"
#include "runtime/atomic_file.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/plugin.h"

namespace moxie::aot {
namespace {

/// A function of the library with what it is made from.
struct PlannedFunction {
  Interface interface;
  Plan plan;  // of GPUs
  DimValues typical;
};

/// A module that becomes one object of the archive.
struct ModuleSource {
  std::string name;
  std::string text;
  VectorMachine machine;
  std::vector<std::string> symbols;  // that it defines for others
};

/// What the header declares of each function begins with its name.
void require_distinct(const LibraryRequest& request) {
  std::map<std::string, std::string> owners = {{request.name + "_manifest", "the list of functions"}};
  for (const Function& function : request.functions) {
    for (const char* suffix : {"", "_arguments", "_workspace", "_gpu", "_cuda", "_cuda_load", "_cuda_unload",
                               "_cuda_workspace", "_cuda_check"}) {
      const auto [known, is_new] = owners.emplace(function.name + suffix, function.name);
      if (is_new) continue;
      throw TypeError(fmt::format("{} and {} would both declare {} in C; give one of the formulas another name",
                                  known->second, function.name, known->first));
    }
  }
}

/// Dims that are not dynamic are constants of the code, which no shape of an input can tell later.
void require_values(const Program& program, const DimValues& dims, const std::string& function) {
  for (const DimDecl& dim : program.dims) {
    if (dim.value || dim.dynamic || dims.contains(dim.name)) continue;
    throw ShapeError(fmt::format("{}: dim {} is a constant of the code and has no value; give it (--dim {}=...)",
                                 function, dim.name, dim.name));
  }
}

std::vector<PlannedFunction> plan_functions(const LibraryRequest& request) {
  require_distinct(request);
  std::vector<PlannedFunction> planned;
  for (const Function& function : request.functions) {
    require_values(function.program, request.dims, function.name);
    DimValues typical = function.typical;
    typical.insert(request.dims.begin(), request.dims.end());
    Plan plan = make_plan(specialise(function.program, request.dims), {},
                          {.products = Products::kernels, .gpu = request.limits, .extents = extent_classes(typical)});
    Interface interface = interface_of(plan, function.name);
    planned.push_back({std::move(interface), std::move(plan), std::move(typical)});
  }
  return planned;
}

/// Of the processors that the library's host code runs on: those of its CPU targets, else this machine's.
VectorMachine host_of(const std::vector<MachineLevel>& levels) {
  return base_machine(levels.empty() ? host_machine() : levels.front().machine);
}

bool is_gpu_name(const std::string& name) {
  const std::size_t digits = name.find('_') + 1;
  const std::string kind = name.substr(0, digits);
  return (kind == "sm_" || kind == "compute_") && name.size() > digits + 1 && name.size() < digits + 4 &&
         std::ranges::all_of(name.substr(digits), [](char c) { return c >= '0' && c <= '9'; });
}

/// In the order in which a GPU prefers them: machine code before PTX, and of each the newest.
std::vector<GpuTarget> gpu_targets(const std::vector<Target>& targets) {
  std::vector<GpuTarget> result;
  for (const Target& target : targets) {
    if (target.kind != Target::Kind::gpu) continue;
    const std::size_t digits = target.name.find('_') + 1;
    const bool ptx = target.name.starts_with("compute_");
    result.push_back({target.name, std::stoi(target.name.substr(digits)), ptx});
  }
  std::ranges::sort(result, {}, [](const GpuTarget& target) { return std::pair(target.ptx, -target.architecture); });
  const auto same = std::ranges::unique(result, {}, &GpuTarget::name);
  result.erase(same.begin(), same.end());
  return result;
}

/// The plan for a level, with the schedules that suit a typical processor of it: the one that a Session on such a
/// processor runs for the typical extents.
Plan plan_for_level(const PlannedFunction& function, const MachineLevel& level) {
  return make_plan(function.plan.program, {},
                   {.products = Products::kernels,
                    .machine = &default_machine(level.name),
                    .extents = extent_classes(function.typical)});
}

/// The kernels of a function for a level, and after them what calls them.
void add_level(std::vector<ModuleSource>& modules, const PlannedFunction& function, const MachineLevel& level) {
  const std::string prefix = level_prefix(function.interface.name, level.name);
  const Plan plan = plan_for_level(function, level);
  const auto kernels = kernel_codes(plan, level.machine, prefix);
  for (const CpuKernelCode& kernel : kernels) {
    LoopProgram program = kernel.lowered->program;
    program.name = kernel.symbol;
    modules.push_back({kernel.symbol + ".o", llvm_text(program, level.machine), level.machine, {kernel.symbol}});
  }
  ModuleText driver;
  add_cpu_driver(driver, plan, function.interface, kernels, prefix, level.machine.triple);
  modules.push_back({prefix + ".o",
                     driver.print(level.machine.triple),
                     base_machine(level.machine),
                     {prefix + ".workspace", prefix + ".run"}});
}

/// What loads and runs the functions on GPUs, as code for the host.
void add_gpus(std::vector<ModuleSource>& modules, const LibraryRequest& request,
              const std::vector<PlannedFunction>& functions, const VectorMachine& host) {
  const std::vector<GpuTarget> targets = gpu_targets(request.targets);
  if (targets.empty()) return;
  const GpuCompilers compilers = request.gpu_compilers(targets);
  std::vector<Interface> interfaces;
  for (const PlannedFunction& function : functions) {
    interfaces.push_back(function.interface);
    for (const GpuTarget& target : targets) {
      const std::string prefix = gpu_prefix(function.interface.name, target);
      const ModuleText driver = gpu_driver(function.plan, function.interface, target, compilers);
      modules.push_back({prefix + ".o", driver.print(host.triple), host, gpu_driver_symbols(prefix)});
    }
  }
  modules.push_back({request.name + ".cuda.o", gpu_entry_points(interfaces, targets).print(host.triple), host,
                     gpu_entry_symbols(interfaces)});
}

std::vector<ArchiveMember> compile_all(const std::vector<ModuleSource>& modules) {
  std::vector<ArchiveMember> members(modules.size());
  in_parallel(modules.size(), [&](std::size_t k) {
    members[k] = {modules[k].name, compile_llvm(modules[k].text, modules[k].machine), modules[k].symbols};
  });
  return members;
}

Manifest manifest_of(const LibraryRequest& request, const std::vector<PlannedFunction>& functions) {
  Manifest manifest{request.name, MOXIE_VERSION, llvm_version(), {}, {}};
  for (const Target& target : request.targets)
    manifest.targets.push_back((target.kind == Target::Kind::cpu ? "cpu:" : "cuda:") + target.name);
  for (const PlannedFunction& function : functions)
    manifest.functions.push_back({function.interface, print(function.plan.program)});
  return manifest;
}

}  // namespace

std::vector<std::string> known_targets() {
  std::vector<std::string> targets;
  for (const MachineLevel& level : machine_levels()) targets.push_back(fmt::format("cpu:{}", level.name));
  targets.insert(targets.end(), {"cuda:sm_NN", "cuda:compute_NN"});
  return targets;
}

std::string default_target() {
  for (const MachineLevel& level : machine_levels())
    if (host_supports(level.name)) return fmt::format("cpu:{}", level.name);
  throw CompileError(
      fmt::format("no kernels are known for this processor; known targets are {}", fmt::join(known_targets(), ", ")));
}

Target parse_target(const std::string& text) {
  const auto known = known_targets();
  if (text.starts_with("cuda:") && is_gpu_name(text.substr(5))) return {Target::Kind::gpu, text.substr(5)};
  if (!text.starts_with("cpu:") || std::ranges::find(known, text) == known.end())
    throw CompileError(fmt::format("unknown target '{}'; known are {}", text, fmt::join(known, ", ")));
  return {Target::Kind::cpu, text.substr(4)};
}

Library make_library(const LibraryRequest& request) {
  const std::vector<PlannedFunction> functions = plan_functions(request);
  const std::vector<MachineLevel> levels = levels_of_one_family(request.targets);
  const VectorMachine host = host_of(levels);
  const std::string manifest = print(manifest_of(request, functions));
  std::vector<ModuleSource> modules;
  std::vector<HeaderFunction> headers;
  std::vector<Interface> on_cpu;
  for (const PlannedFunction& function : functions) {
    for (const MachineLevel& level : levels) add_level(modules, function, level);
    if (!levels.empty()) on_cpu.push_back(function.interface);
    const bool on_gpu = !gpu_targets(request.targets).empty();
    headers.push_back(
        {function.interface, print(function.plan.program), !levels.empty(), on_gpu ? gpu_words(function.plan) : 0});
  }
  add_gpus(modules, request, functions, host);
  modules.push_back({request.name + ".o", entry_points(request.name, on_cpu, levels, manifest, host.triple), host,
                     entry_symbols(request.name, on_cpu)});
  return {request.name + ".h",
          "lib" + request.name + ".a",
          request.name + ".json",
          c_header(request.name, headers),
          make_archive(compile_all(modules)),
          manifest};
}

void write_library(const Library& library, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
  atomic_write(folder / library.archive_name, library.archive);
  atomic_write(folder / library.header_name, library.header);
  atomic_write(folder / library.manifest_name, library.manifest);
}

}  // namespace moxie::aot
