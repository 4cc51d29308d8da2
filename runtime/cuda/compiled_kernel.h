#pragma once
// CompiledKernel: a kernel as CUDA text and as code for one architecture. No GPU is needed to make one.
#include <span>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_text.h"
#include "runtime/cuda/platform.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_override.h"
#include "runtime/plan.h"

namespace moxie::cuda {

struct KernelRequest {
  const LoweredKernel* lowered = nullptr;  // of a Plan that outlives this
  GpuLimits limits;
  CudaPreference preference = {};
  bool wide_index = false;
};

struct CompiledKernel {
  const LoweredKernel* lowered = nullptr;
  CudaSchedule schedule;
  CudaKernel kernel;
  CacheEntry code;
  std::string compiler;  // its version
  bool is_from_cache = false;
};

/// Whether 32-bit subscripts do not reach all elements, and a little beyond them, where blocks end.
bool needs_wide_index(const Plan& plan, const LoweredKernel& kernel, const DimValues& dims);

/// What compiles kernels, and what may spare it the work.
struct KernelBuilder {
  Compiler compiler;
  int architecture = 0;
  KernelCache& cache;
  KernelOverrides& overrides;
  CudaPreferences preferences = {};
  bool tune = false;
};

/// Finds the kernels in the cache, or compiles them on several threads. A kernel whose registers do not suffice is
/// compiled again with more thrift, by the compiler's own report. Throws CompileError.
std::vector<CompiledKernel> compile_kernels(const std::vector<KernelRequest>& requests, KernelBuilder& builder);
/// A kernel whose code from the cache the driver refuses: its entry is discarded, and the text compiled.
CompiledKernel compile_again(CompiledKernel refused, KernelBuilder& builder);
/// What the cache knows a kernel by: key_head(), what compiles it, and its text without comments.
std::string cuda_cache_key(const std::string& text, const Compiler& compiler, int architecture);
/// The file that MOXIE_KERNEL_OVERRIDE looks for.
std::string cuda_kernel_file(const CudaKernel& kernel, const Compiler& compiler, int architecture);

}  // namespace moxie::cuda
