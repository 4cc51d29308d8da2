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
using llvm_ir::typed;

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

void leave_with_result(FunctionWriter& w, const std::string& callee, const EntryPoint& entry) {
  const std::string operands = fmt::format("{}", fmt::join(entry.parameters, ", "));
  std::vector<std::string> types;
  for (const std::string& parameter : entry.parameters) types.push_back(parameter.substr(0, parameter.find(' ')));
  w.module().declare(fmt::format("declare hidden i32 @\"{}\"({})", callee, fmt::join(types, ", ")));
  const Val status = w.ir().raw(Scalar::i32, 1, fmt::format("tail call i32 @\"{}\"({})", callee, operands));
  w.ir().line("ret " + typed(status));
}

/// Jumps to the widest level that the processor has.
void add_entry_point(ModuleText& module, const Interface& function, const EntryPoint& entry,
                     const std::vector<MachineLevel>& levels) {
  FunctionWriter w(module, fmt::format("define i32 @{}({}) nounwind", entry.name, fmt::join(entry.parameters, ", ")));
  for (const MachineLevel& level : levels) {
    const std::string callee = fmt::format("{}.{}", level_prefix(function.name, level.name), entry.suffix);
    const auto least = kX86Levels.find(level.name);
    if (least == kX86Levels.end()) {
      leave_with_result(w, callee, entry);
      w.ir().line(w.ir().fresh("unreachable") + ":");
      continue;
    }
    const Val has = w.ir().raw(Scalar::i64, 1, "call i64 @moxie.level()");
    const std::string yes = w.ir().fresh("yes"), no = w.ir().fresh("no");
    w.ir().line(fmt::format("br {}, label %{}, label %{}", typed(w.is("sge", has, w.integer(least->second))), yes, no));
    w.ir().line(yes + ":");
    leave_with_result(w, callee, entry);
    w.ir().line(no + ":");
  }
  std::vector<std::string_view> names;
  for (const MachineLevel& level : levels) names.push_back(level.name);
  const Call call = begin_call(w, function);
  complain(w, call,
           escaped(fmt::format("{}: this processor is older than all that the library has code for: {}; make it for "
                               "cpu:x86-64 too",
                               function.name, fmt::join(names, ", "))));
  w.leave(unsupported_machine);
  w.ir().line(w.ir().fresh("unreachable") + ":");
  w.finish();
}

}  // namespace

std::string level_prefix(const std::string& function, std::string_view level) {
  return fmt::format("{}.{}", function, level);
}

std::vector<MachineLevel> levels_of_one_family(const std::vector<Target>& targets) {
  std::vector<MachineLevel> levels;
  for (const MachineLevel& level : machine_levels()) {
    if (std::ranges::find(targets, level.name, &Target::name) != targets.end()) levels.push_back(level);
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
                         const std::vector<MachineLevel>& levels, const std::string& manifest) {
  ModuleText module;
  const bool asks_level = std::ranges::any_of(
      levels, [](const MachineLevel& level) { return kX86Levels.contains(level.name); });
  if (asks_level) module.define(std::string(template_text("aot/x86_level.ll")) + "\n");
  module.publish(library + "_manifest", manifest);
  for (const Interface& function : functions) {
    for (const EntryPoint& entry : entry_points_of(function)) add_entry_point(module, function, entry, levels);
  }
  return module.print(levels.front().machine.triple);
}

std::vector<std::string> entry_symbols(const std::string& library, const std::vector<Interface>& functions) {
  std::vector<std::string> symbols = {library + "_manifest"};
  for (const Interface& function : functions) {
    for (const EntryPoint& entry : entry_points_of(function)) symbols.push_back(entry.name);
  }
  return symbols;
}

}  // namespace moxie::aot
