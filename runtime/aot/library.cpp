#include "runtime/aot/library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/codegen/llvm/llvm_text.h"
#include "compiler/support/error.h"
#include "runtime/aot/archive.h"
#include "runtime/aot/cpu_driver.h"
#include "runtime/aot/cpu_levels.h"
#include "runtime/aot/header.h"
#include "runtime/aot/manifest.h"
#include "runtime/atomic_file.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/plugin.h"
#include "runtime/parallel.h"

namespace moxie::aot {
namespace {

/// A function of the library with what it is made from.
struct PlannedFunction {
  Interface interface;
  Plan plan;
};

/// A module that becomes one object of the archive.
struct ModuleSource {
  std::string name;
  std::string text;
  VectorMachine machine;
  std::vector<std::string> symbols;  // that it defines for others
};

std::vector<PlannedFunction> plan_functions(const LibraryRequest& request) {
  std::vector<PlannedFunction> planned;
  for (const Function& function : request.functions) {
    Plan plan = make_plan(specialise(function.program, request.dims), {}, Products::kernels);
    Interface interface = interface_of(plan, function.name);
    planned.push_back({std::move(interface), std::move(plan)});
  }
  return planned;
}

/// The kernels of a function for a level, and behind them what calls them.
void add_level(std::vector<ModuleSource>& modules, const PlannedFunction& function, const MachineLevel& level) {
  const std::string prefix = level_prefix(function.interface.name, level.name);
  const auto kernels = kernel_codes(function.plan, level.machine, prefix);
  for (const CpuKernelCode& kernel : kernels) {
    LoopProgram program = kernel.lowered->program;
    program.name = kernel.symbol;
    modules.push_back({kernel.symbol + ".o", llvm_text(program, level.machine), level.machine, {kernel.symbol}});
  }
  ModuleText driver;
  add_cpu_driver(driver, function.plan, function.interface, kernels, prefix);
  modules.push_back({prefix + ".o", driver.print(level.machine.triple), base_machine(level.machine),
                     {prefix + ".workspace", prefix + ".run"}});
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
  for (const Target& target : request.targets) manifest.targets.push_back("cpu:" + target.name);
  for (const PlannedFunction& function : functions)
    manifest.functions.push_back({function.interface, print(function.plan.program)});
  return manifest;
}

}  // namespace

std::vector<std::string> known_targets() {
  std::vector<std::string> targets;
  for (const MachineLevel& level : machine_levels()) targets.push_back(fmt::format("cpu:{}", level.name));
  return targets;
}

Target parse_target(const std::string& text) {
  const auto known = known_targets();
  if (std::ranges::find(known, text) == known.end())
    throw CompileError(fmt::format("unknown target '{}'; known are {}", text, fmt::join(known, ", ")));
  return {Target::Kind::cpu, text.substr(4)};
}

Library make_library(const LibraryRequest& request) {
  const std::vector<PlannedFunction> functions = plan_functions(request);
  const std::vector<MachineLevel> levels = levels_of_one_family(request.targets);
  std::vector<ModuleSource> modules;
  for (const MachineLevel& level : levels) {
    for (const PlannedFunction& function : functions) add_level(modules, function, level);
  }
  const Manifest manifest = manifest_of(request, functions);
  std::vector<Interface> interfaces;
  std::vector<std::string> formulas;
  for (const FunctionEntry& entry : manifest.functions) {
    interfaces.push_back(entry.interface);
    formulas.push_back(entry.formula);
  }
  modules.push_back({request.name + ".o", entry_points(request.name, interfaces, levels, print(manifest)),
                     base_machine(levels.front().machine), entry_symbols(request.name, interfaces)});
  return {request.name + ".h",
          "lib" + request.name + ".a",
          request.name + ".json",
          c_header(request.name, interfaces, formulas),
          make_archive(compile_all(modules)),
          print(manifest)};
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
