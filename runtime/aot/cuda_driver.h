#pragma once
// The functions of an AOT library for one kind of GPU, as LLVM text for the host: they do what CudaExecutable does for a
// Plan, on the caller's stream, with the caller's memory and for any dims.
#include <string>
#include <vector>

#include "runtime/aot/function_writer.h"
#include "runtime/aot/interface.h"
#include "runtime/cuda/compiled_kernel.h"

namespace moxie::aot {

/// Words of the caller's struct before the handles of kernels: the number of the target that was loaded, from 1.
inline constexpr std::int64_t kHandlesBegin = 1;
/// Of each kernel: a module, its function, and that which combines partial results.
inline constexpr std::int64_t kHandlesPerKernel = 3;

/// Adds the functions i32 @"PREFIX.load"(ptr gpu, ptr message), @"PREFIX.unload"(ptr gpu, ptr message),
/// @"PREFIX.workspace"(ptr arguments, ptr bytes, ptr message),
/// @"PREFIX.run"(ptr gpu, ptr arguments, ptr workspace, i64 workspace_bytes, ptr stream, ptr message) and
/// @"PREFIX.check"(ptr workspace, ptr stream, ptr message). `kernels` are in the order of the plan.
void add_cuda_driver(ModuleText& module, const Plan& plan, const Interface& interface,
                     const std::vector<cuda::CompiledKernel>& kernels, const std::string& prefix);

/// A call of the driver, of a function that is declared as "i32 @name(types)". Leaves with a message that begins with
/// `what` where it fails, after `before` is done.
void call_driver(FunctionWriter& writer, const Pointer& message, const std::string& name, const std::string& types,
                 const std::string& operands, const std::string& what, const std::function<void()>& before = {});

}  // namespace moxie::aot
