#pragma once
// The levels of one processor family that a library has code for, and the public functions, which choose among them.
#include <string>
#include <string_view>
#include <vector>

#include "runtime/aot/interface.h"
#include "runtime/aot/library.h"
#include "runtime/cpu/host.h"

namespace moxie::aot {

/// What the symbols of a function begin with at a level.
std::string level_prefix(const std::string& function, std::string_view level);
/// The levels of the targets, the widest first. Throws CompileError where they are of two families.
std::vector<MachineLevel> levels_of_one_family(const std::vector<Target>& targets);
/// What every processor of the family runs.
VectorMachine base_machine(const VectorMachine& machine);

/// The module of the public functions and of the manifest.
std::string entry_points(const std::string& library, const std::vector<Interface>& functions,
                         const std::vector<MachineLevel>& levels, const std::string& manifest,
                         const std::string& triple);
/// What it defines for others.
std::vector<std::string> entry_symbols(const std::string& library, const std::vector<Interface>& functions);

}  // namespace moxie::aot
