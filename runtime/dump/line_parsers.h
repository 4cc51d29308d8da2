#pragma once
// Line tables out of the texts of other compilers, which name the lines that they were given.
#include <string>
#include <string_view>

#include "compiler/support/line_table.h"

namespace moxie {

/// A text without what only names lines, and where its lines are from.
struct TracedText {
  std::string text;
  LineTable lines;
};

/// Definitions of one printed Program in another one, by their names. `adj.psi.1` is from `psi` where nothing else of
/// that name is there.
LineTable lines_by_name(std::string_view later, std::string_view earlier);
/// From a printed LoopProgram, whose definitions `by_definition` gives by number, to the Program that they stand in.
LineTable lines_of_definitions(std::string_view loops, const LineTable& by_definition, std::string_view program);

/// LLVM IR whose instructions name their own lines as lines of source, so that all that LLVM makes of it can be traced.
/// `file` is what debuggers are told.
std::string with_debug_lines(std::string_view llvm_ir, std::string_view file = "kernel.ll");
TracedText trace_llvm(std::string_view optimised);
TracedText trace_assembly(std::string_view assembly);

/// Lines of the CUDA text before `skipped` are fragments, which count as the line that calls them.
TracedText trace_ptx(std::string_view ptx, int skipped);
/// What `nvdisasm --print-line-info-inline --print-code` prints.
TracedText trace_sass(std::string_view disassembly, int skipped);

}  // namespace moxie
