#pragma once
// The LLVM plugin as the CPU backend sees it: found and loaded when the first kernel must be compiled.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/codegen/llvm/llvm_text.h"

namespace moxie {

enum class LlvmOutput : std::uint8_t { object, assembly, optimised_ir };

/// The kernel's module as machine code or text. `file` is where the text comes from if it was not generated; errors
/// name it. Loads the plugin if need be. Throws CompileError.
std::string compile_llvm(const std::string& text, const VectorMachine& machine, LlvmOutput want = LlvmOutput::object,
                         const std::filesystem::path& file = {});

/// "LLVM 19.1.4". Loads the plugin if need be; throws CompileError where there is none.
std::string llvm_version();
/// The file that was loaded. Loads the plugin if need be; throws CompileError where there is none.
std::filesystem::path llvm_plugin_path();
/// The LLVM library that the plugin uses. Loads the plugin if need be; throws CompileError where there is none.
std::filesystem::path llvm_library_path();
/// Whether this process has loaded the plugin.
bool llvm_is_loaded();
/// Calls of compile_llvm() so far that gave object code.
std::int64_t llvm_compilations();
/// Where moxie's plugins are looked for, in order. The empty path leaves the search to the system's loader, which knows
/// the run path of programs that link to an installed moxie.
std::vector<std::filesystem::path> plugin_directories();
/// The first file of this name there that the system's loader opens, with dlopen()'s `mode`; null where there is none,
/// with what is wrong with each of them in `reasons`. `path` becomes that of the file.
void* open_plugin(const char* name, int mode, std::filesystem::path& path, std::vector<std::string>& reasons);
/// The files that are tried there, in order, without the search of the system's loader.
std::vector<std::filesystem::path> llvm_plugin_candidates();

}  // namespace moxie
