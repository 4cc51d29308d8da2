#include "runtime/cuda/compiled_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "runtime/parallel.h"

namespace moxie::cuda {
namespace {

/// Raised whenever a CacheEntry of a CUDA kernel means something else.
constexpr int kCodeVersion = 1;

CacheEntry compile(const CudaKernel& kernel, const Compiler& compiler, int architecture) {
  std::vector<std::string> entries = {kernel.entry};
  if (!kernel.combine_entry.empty()) entries.push_back(kernel.combine_entry);
  return compiler.compile(kernel.text, entries, architecture);
}

}  // namespace

std::string cuda_cache_key(const std::string& text, const Compiler& compiler, int architecture) {
  return fmt::format("cuda kernel {} {} sm_{}\n{}", kCodeVersion, compiler.version, architecture, text);
}

std::vector<CompiledKernel> compile_kernels(std::vector<ScheduledKernel> kernels, const Compiler& compiler,
                                            int architecture, KernelCache& cache) {
  std::vector<CompiledKernel> compiled;
  std::vector<std::size_t> missing;
  for (ScheduledKernel& scheduled : kernels) {
    CudaKernel kernel = cuda_kernel(*scheduled.lowered, scheduled.schedule);
    std::optional<CacheEntry> code = cache.find(cuda_cache_key(kernel.text, compiler, architecture));
    if (!code) missing.push_back(compiled.size());
    compiled.push_back({std::move(scheduled), std::move(kernel), code.value_or(CacheEntry{}), compiler.version});
  }
  // The longest first, so that no thread is left with much while the others have nothing.
  std::ranges::sort(missing, std::greater(), [&](std::size_t i) { return compiled[i].kernel.text.size(); });
  in_parallel(missing.size(), [&](std::size_t k) {
    CompiledKernel& made = compiled[missing[k]];
    made.code = compile(made.kernel, compiler, architecture);
    cache.store(cuda_cache_key(made.kernel.text, compiler, architecture), made.code);
  });
  return compiled;
}

}  // namespace moxie::cuda
