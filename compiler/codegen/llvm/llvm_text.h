#pragma once
// Textual LLVM IR for one vector machine: a LoopProgram becomes the text of a module. Pure: no LLVM library is needed.
#include <string>
#include <string_view>

#include "compiler/loop/loop_program.h"
#include "compiler/loop/scratch_size.h"
#include "compiler/support/line_table.h"

namespace moxie {

struct VectorMachine {
  std::string triple;     // "x86_64-unknown-linux-gnu"
  std::string cpu;        // a name LLVM knows; only for tuning
  std::string features;   // "+avx512f,+avx512vl,..." exactly what may be used
  int vector_bits = 512;  // width of a register
  bool operator==(const VectorMachine&) const = default;
};

/// Lanes of the vector loop: as many of the narrowest dtype used in the vector loop as fill one register, or two where
/// it draws random numbers.
int lanes_for(const LoopProgram& program, const VectorMachine& machine);

/// @"name", as the text has it: any byte may stand in a name, escaped.
std::string llvm_global(std::string_view name);
/// The module's text. It defines  void @NAME(ptr buffers, ptr arguments, ptr scratch, ptr status)
/// with buffers an array of pointers, arguments an array of i64, scratch of scratch_size() bytes aligned to 64, and
/// status a KernelStatus. It refers to no outside symbol: every function is inlined.
std::string llvm_text(const LoopProgram& program, const VectorMachine& machine);
/// The same, with the lines of the printed LoopProgram that its lines were made from.
struct LlvmModule {
  std::string text;
  LineTable lines;
};
LlvmModule llvm_module(const LoopProgram& program, const VectorMachine& machine);
/// The scratch that a call needs.
ScratchSize scratch_size(const LoopProgram& program, const VectorMachine& machine);

}  // namespace moxie
