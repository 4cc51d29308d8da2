#pragma once
// The functions of an AOT library for one level of CPU, as LLVM text: they do what CpuExecutable does for a Plan, on
// one thread, with the caller's memory and for any dims.
#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/llvm/llvm_text.h"
#include "runtime/aot/function_writer.h"
#include "runtime/aot/interface.h"

namespace moxie::aot {

/// A kernel of the plan as it is compiled for the level.
struct CpuKernelCode {
  const LoweredKernel* lowered = nullptr;
  std::string symbol;
  int lanes = 1;
  ScratchSize scratch;
};

/// In the order of the plan; symbols begin with `prefix`.
std::vector<CpuKernelCode> kernel_codes(const Plan& plan, const VectorMachine& machine, const std::string& prefix);

/// For the machine of the triple, adds
///       i32 @"PREFIX.workspace"(ptr arguments, ptr bytes, ptr message)
/// and   i32 @"PREFIX.run"(ptr arguments, ptr workspace, i64 workspace_bytes, ptr message).
void add_cpu_driver(ModuleText& module, const Plan& plan, const Interface& interface,
                    const std::vector<CpuKernelCode>& kernels, const std::string& prefix, std::string_view triple);

}  // namespace moxie::aot
