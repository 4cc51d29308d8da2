#pragma once
// AOT libraries: Programs as machine code with a plain C interface, for machines without moxie, LLVM or a compiler.
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/ir/program.h"

namespace moxie::aot {

/// "cpu:x86-64-v3": what code is made for.
struct Target {
  enum class Kind : std::uint8_t { cpu };
  Kind kind = Kind::cpu;
  std::string name;  // behind the colon
};
/// Throws CompileError for a target that moxie does not know, with the list of those it does.
Target parse_target(const std::string& text);
/// All targets, for help texts.
std::vector<std::string> known_targets();

/// One C function.
struct Function {
  std::string name;
  Program program;
};

struct LibraryRequest {
  std::string name;  // of the files and of the manifest
  std::vector<Function> functions;
  DimValues dims;  // of static dims
  std::vector<Target> targets;
};

/// The files of a library by their names: a header, a static library and a manifest.
struct Library {
  std::string header_name, archive_name, manifest_name;
  std::string header, archive, manifest;
};

/// Equal requests give equal bytes. Throws CompileError for targets that no one library can hold, ShapeError where a static dim has no value.
Library make_library(const LibraryRequest& request);
/// Writes the files into the folder, which is made if it is not there. Throws DataError.
void write_library(const Library& library, const std::filesystem::path& folder);

}  // namespace moxie::aot
