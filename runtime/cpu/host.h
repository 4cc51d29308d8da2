#pragma once
// What the processor offers to generated code.
#include <span>
#include <string_view>

#include "compiler/codegen/llvm/llvm_text.h"

namespace moxie {

/// A level of vector instructions, by the name that command lines and messages use ("x86-64-v4").
struct MachineLevel {
  std::string_view name;
  VectorMachine machine;
};

/// All levels, the widest first for each processor family.
std::span<const MachineLevel> machine_levels();
/// The level's machine. Throws CompileError, with the list of names, for an unknown one.
const VectorMachine& machine_level(std::string_view name);
/// The widest level that this processor runs, or that with registers of at most `vector_bits`.
const VectorMachine& host_machine(int vector_bits = 512);
/// Whether this processor has every feature that the level uses.
bool host_supports(std::string_view level);

}  // namespace moxie
