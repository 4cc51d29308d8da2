#pragma once
// CompiledKernel: a kernel as CUDA text and as code for one architecture. No GPU is needed to make one.
#include <span>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_text.h"
#include "runtime/cuda/platform.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_override.h"

namespace moxie::cuda {

struct ScheduledKernel {
  const LoweredKernel* lowered = nullptr;  // of a Plan that outlives this
  CudaSchedule schedule;
};

struct CompiledKernel {
  ScheduledKernel scheduled;
  CudaKernel kernel;
  CacheEntry code;
  std::string compiler;  // its version
};

/// What compiles kernels, and what may spare it the work.
struct KernelBuilder {
  Compiler compiler;
  int architecture = 0;
  KernelCache& cache;
  KernelOverrides& overrides;
};

/// Finds the kernels in the cache, or compiles them on several threads. Throws CompileError.
std::vector<CompiledKernel> compile_kernels(std::vector<ScheduledKernel> kernels, KernelBuilder& builder);
/// What the cache knows a kernel by: its text without comments, and what compiles it.
std::string cuda_cache_key(const std::string& text, const Compiler& compiler, int architecture);
/// The file that MOXIE_KERNEL_OVERRIDE looks for.
std::string cuda_kernel_file(const CudaKernel& kernel, const Compiler& compiler, int architecture);

}  // namespace moxie::cuda
