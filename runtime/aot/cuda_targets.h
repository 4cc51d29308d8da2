#pragma once
// The kinds of GPU that a library has code for, and the public functions, which choose among them.
#include <string>
#include <vector>

#include "runtime/aot/function_writer.h"
#include "runtime/aot/interface.h"
#include "runtime/cuda/platform.h"

namespace moxie::aot {

/// "sm_90": machine code; "compute_80": PTX, which drivers translate for later GPUs too.
struct GpuTarget {
  std::string name;
  int architecture = 0;
  bool ptx = false;
};

/// What compiles for GPUs.
struct GpuCompilers {
  cuda::Compiler machine_code, ptx;
};
/// NVRTC. Throws DeviceError where it is not installed, CompileError for targets that it does not know.
GpuCompilers nvrtc_compilers(const std::vector<GpuTarget>& targets);

/// What the symbols of a function begin with for a target.
std::string gpu_prefix(const std::string& function, const GpuTarget& target);
/// The module of what loads and runs a function's kernels on GPUs of the target.
ModuleText gpu_driver(const Plan& plan, const Interface& function, const GpuTarget& target,
                      const GpuCompilers& compilers);

/// The module of the public functions.
ModuleText gpu_entry_points(const std::vector<Interface>& functions, const std::vector<GpuTarget>& targets);
/// What it defines for others.
std::vector<std::string> gpu_entry_symbols(const std::vector<Interface>& functions);
/// What a driver's module does.
std::vector<std::string> gpu_driver_symbols(const std::string& prefix);

/// Words of the caller's struct for the kernels of a plan.
std::int64_t gpu_words(const Plan& plan);

}  // namespace moxie::aot
