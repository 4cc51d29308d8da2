#pragma once
// AOT libraries: Programs as machine code with a plain C interface, for machines without moxie, LLVM or a compiler.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "runtime/aot/cuda_targets.h"

namespace moxie::aot {

/// What code is made for, by its name behind the colon: "cpu:x86-64-v3", "cuda:sm_90".
struct Target {
  enum class Kind : std::uint8_t { cpu, gpu };
  Kind kind = Kind::cpu;
  std::string name;
};
/// Throws CompileError for a target that moxie does not know, with the list of those it does.
Target parse_target(const std::string& text);
/// All targets, for help texts: those of GPUs as patterns.
std::vector<std::string> known_targets();
/// That of the best kernels for this processor.
std::string default_target();

/// One C function.
struct Function {
  std::string name;
  Program program;
  DimValues typical = {};  // extents of dynamic dims that the schedules on CPUs are chosen for
};

struct LibraryRequest {
  std::string name;  // of the files and of the manifest
  std::vector<Function> functions;
  DimValues dims;  // of static dims; typical values of dynamic ones, for functions that have none
  std::vector<Target> targets;
  GpuLimits limits = {};  // the GPU that kernels are scheduled for
  std::function<GpuCompilers(const std::vector<GpuTarget>&)> gpu_compilers = nvrtc_compilers;
};

/// The files of a library by their names: a header, a static library and a manifest.
struct Library {
  std::string header_name, archive_name, manifest_name;
  std::string header, archive, manifest;
};

/// Equal requests give equal bytes. Throws CompileError for targets that no one library can hold, ShapeError where a
/// static dim has no value.
Library make_library(const LibraryRequest& request);
/// Writes the files into the folder, which is made if it is not there. Throws DataError.
void write_library(const Library& library, const std::filesystem::path& folder);

}  // namespace moxie::aot
