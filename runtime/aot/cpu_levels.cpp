#include "runtime/aot/cpu_levels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "codegen_templates/templates.h"
#include "compiler/support/error.h"
#include "runtime/aot/call_checks.h"

namespace moxie::aot {
namespace {

using llvm_ir::Scalar;

/// What @moxie.level() of codegen_templates/aot/x86_level.ll gives at least, where the level runs. Levels that are not
/// listed run on every processor of their family.
const std::map<std::string_view, std::int64_t> kX86Levels = {{"x86-64-v4", 4}, {"x86-64-v3", 3}};

/// One public function, by what is behind the point in the names of the functions that do the work.
struct EntryPoint {
  std::string name, suffix;
  std::vector<std::string> parameters;
};

std::vector<EntryPoint> entry_points_of(const Interface& function) {
  return {{function.name + "_workspace", "workspace", {"ptr %arguments", "ptr %bytes", "ptr %message"}},
          {function.name,
           "run",
           {"ptr %arguments", "ptr %workspace", "i64 %workspace_bytes", "ptr %message"}}};
}

/// Jumps to the widest level that the processor has.
void add_entry_point(ModuleText& module, const Interface& function, const EntryPoint& entry,
                     const std::vector<MachineLevel>& levels) {
  FunctionWriter w(module, fmt::format("define i32 @{}({}) nounwind", entry.name, fmt::join(entry.parameters, ", ")));
  for (const MachineLevel& level : levels) {
    const auto go_on = [&] {
      w.leave_with(fmt::format("{}.{}", level_prefix(function.name, level.name), entry.suffix), entry.parameters);
    };
    const auto least = kX86Levels.find(level.name);
    const bool needs = least != kX86Levels.end();
    const Val has = needs ? w.ir().raw(Scalar::i64, 1, "call i64 @moxie.level()") : w.integer(1);
    w.branch(w.is("sge", has, w.integer(needs ? least->second : 1)), go_on);
  }
  std::vector<std::string_view> names;
  for (const MachineLevel& level : levels) names.push_back(level.name);
  const Call call = begin_call(w, function);
  complain(w, call.message,
           escaped(fmt::format("{}: this processor is older than all that the library has code for: {}; make it for "
                               "cpu:x86-64 too",
                               function.name, fmt::join(names, ", "))));
  w.finish(unsupported_machine);
}

}  // namespace

std::string level_prefix(const std::string& function, std::string_view level) {
  return fmt::format("{}.{}", function, level);
}

std::vector<MachineLevel> levels_of_one_family(const std::vector<Target>& targets) {
  std::vector<MachineLevel> levels;
  for (const MachineLevel& level : machine_levels()) {
    if (std::ranges::any_of(targets, [&](const Target& target) { return target.kind == Target::Kind::cpu && target.name == level.name; })) levels.push_back(level);
  }
  for (const MachineLevel& level : levels) {
    if (level.machine.triple != levels.front().machine.triple)
      throw CompileError(fmt::format("targets cpu:{} and cpu:{} are processors of two kinds, whose code no one library "
                                     "holds: make one library for each, in folders of their own",
                                     levels.front().name, level.name));
  }
  return levels;
}

VectorMachine base_machine(const VectorMachine& machine) {
  const auto levels = machine_levels();
  const auto base = std::ranges::find_if(levels, [&](const MachineLevel& level) {
    return level.machine.triple == machine.triple && !kX86Levels.contains(level.name);
  });
  return base->machine;
}

std::string entry_points(const std::string& library, const std::vector<Interface>& functions,
                         const std::vector<MachineLevel>& levels, const std::string& manifest,
                         const std::string& triple) {
  ModuleText module;
  const bool asks_level = std::ranges::any_of(
      levels, [](const MachineLevel& level) { return kX86Levels.contains(level.name); });
  if (asks_level) module.define(std::string(template_text("aot/x86_level.ll")) + "\n");
  module.publish(library + "_manifest", manifest);
  for (const Interface& function : functions) {
    for (const EntryPoint& entry : entry_points_of(function)) add_entry_point(module, function, entry, levels);
  }
  return module.print(triple);
}

std::vector<std::string> entry_symbols(const std::string& library, const std::vector<Interface>& functions) {
  std::vector<std::string> symbols = {library + "_manifest"};
  for (const Interface& function : functions) {
    for (const EntryPoint& entry : entry_points_of(function)) symbols.push_back(entry.name);
  }
  return symbols;
}

}  // namespace moxie::aot
