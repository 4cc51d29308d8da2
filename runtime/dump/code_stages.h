#pragma once
// The stages of kernels below the LoopProgram: what code generators and compilers make of it.
#include <vector>

#include "compiler/codegen/llvm/llvm_text.h"
#include "runtime/dump/dump.h"
#include "runtime/kernel_cache.h"

namespace moxie {

/// The Program that the definitions of kernels stand in.
struct OptimisedText {
  std::string text, title;
};
/// A kernel of the plan for the CPU, of the plan for GPUs, or one of the same name in both.
struct DumpedKernel {
  std::string name;
  const LoweredKernel* cpu = nullptr;
  const LoweredKernel* gpu = nullptr;
};
/// Of these kernels, which several threads compile; stages and figures that nobody wants are left out.
std::vector<KernelDump> dump_kernels(const Compilation& compilation, const std::vector<DumpedKernel>& kernels,
                                     const OptimisedText& optimised, const DimValues& dims, const DumpOptions& options);

/// LLVM IR and what becomes of it, as far as it is wanted.
std::vector<StageText> cpu_stages(const std::string& kernel, const LlvmModule& module, KernelCache& cache,
                                  const DumpOptions& options);
/// `skipped` lines of the CUDA text are fragments.
StageText sass_stage(const std::string& code, int skipped, KernelCache& cache);

}  // namespace moxie
