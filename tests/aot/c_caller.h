#pragma once
// Calls the functions of an AOT library as a program in C99 does: a caller is generated, compiled, linked with the
// library and nothing but the C library, and run.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/aot/library.h"
#include "runtime/host_tensor.h"

namespace moxie::test {

using Tensors = std::map<std::string, HostTensor>;

/// One call of a function of the library.
struct CCall {
  std::string function;
  Program program;  // of the function, as requested
  DimValues dims;   // of all dims
  Tensors inputs;
  std::uint64_t seed = 0, step = 0;
};

struct CResult {
  int status = 0;
  std::string message;
  Tensors outputs;
};

/// How programs are compiled and run: "cc" and "", or a cross compiler and an emulator.
struct Toolchain {
  std::string compiler = "cc";
  std::string flags = {};
  std::string runner = {};
};

/// Inside `folder`, into which the library is written. Throws std::runtime_error with the output of a command that
/// fails.
std::vector<CResult> call_from_c(const std::filesystem::path& folder, const aot::LibraryRequest& request,
                                 const std::vector<CCall>& calls, const Toolchain& toolchain = {});

/// The output of a shell command; throws std::runtime_error with it where the command fails.
std::string shell(const std::string& command);

}  // namespace moxie::test
