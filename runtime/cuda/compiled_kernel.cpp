#include "runtime/cuda/compiled_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "runtime/cache_file.h"
#include "runtime/log.h"
#include "runtime/parallel.h"

namespace moxie::cuda {
namespace {

/// Raised whenever a CacheEntry of a CUDA kernel means something else.
constexpr int kCodeVersion = 1;

std::string key_of(const CudaKernel& kernel, const KernelBuilder& builder) {
  return cuda_cache_key(kernel.text, builder.compiler, builder.architecture);
}

CacheEntry compile(const CudaKernel& kernel, KernelBuilder& builder) {
  std::vector<std::string> entries = {kernel.entry};
  if (!kernel.combine_entry.empty()) entries.push_back(kernel.combine_entry);
  const auto start = std::chrono::steady_clock::now();
  CacheEntry code = builder.compiler.compile(kernel.text, entries, builder.architecture);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  const std::string key = key_of(kernel, builder);
  log_info(LogChannel::Codegen, "compiled {} ({}) in {:.1f} ms: {} bytes of text, {} of code", kernel.entry,
           key_digest(key), taken.count(), kernel.text.size(), code.object.size());
  builder.cache.store(key, code);
  return code;
}

bool is_comment(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  return line.substr(begin).starts_with("//");
}

}  // namespace

std::string cuda_cache_key(const std::string& text, const Compiler& compiler, int architecture) {
  std::string key = fmt::format("cuda kernel {} {} sm_{}\n", kCodeVersion, compiler.version, architecture);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    if (!is_comment(line)) key += line;
    rest.remove_prefix(line.size());
  }
  return key;
}

std::string cuda_kernel_file(const CudaKernel& kernel, const Compiler& compiler, int architecture) {
  return kernel_file_name(kernel.entry, cuda_cache_key(kernel.text, compiler, architecture), ".cu");
}

std::vector<CompiledKernel> compile_kernels(std::vector<ScheduledKernel> kernels, KernelBuilder& builder) {
  std::vector<CompiledKernel> compiled;
  std::vector<std::size_t> missing;
  for (ScheduledKernel& scheduled : kernels) {
    CudaKernel kernel = cuda_kernel(*scheduled.lowered, scheduled.schedule);
    auto edited = builder.overrides.find(cuda_kernel_file(kernel, builder.compiler, builder.architecture));
    if (edited) kernel.text = std::move(edited->text);
    std::optional<CacheEntry> code = builder.cache.find(key_of(kernel, builder));
    if (!code) missing.push_back(compiled.size());
    compiled.push_back(
        {std::move(scheduled), std::move(kernel), code.value_or(CacheEntry{}), builder.compiler.version});
  }
  // The longest first, so that no thread is left with much while the others have nothing.
  std::ranges::sort(missing, std::greater(), [&](std::size_t i) { return compiled[i].kernel.text.size(); });
  in_parallel(missing.size(), [&](std::size_t k) {
    CompiledKernel& made = compiled[missing[k]];
    made.code = compile(made.kernel, builder);
  });
  return compiled;
}

}  // namespace moxie::cuda
