#include "runtime/cuda/compiled_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <numeric>

#include "compiler/support/parallel.h"
#include "runtime/cache_file.h"
#include "runtime/cache_key.h"
#include "runtime/cuda/resource_report.h"
#include "runtime/log.h"

namespace moxie::cuda {
namespace {

/// Raised whenever a CacheEntry of a CUDA kernel means something else.
constexpr int kCodeVersion = 1;

bool is_comment(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  return line.substr(begin).starts_with("//");
}

/// What a kernel's text decides: the text without comments, and what it is compiled by and for.
std::string text_key(const std::string& text, const Compiler& compiler, int architecture) {
  std::string key =
      fmt::format("cuda kernel {} {} {} sm_{}\n", kCodeVersion, MOXIE_VERSION, compiler.version, architecture);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    if (!is_comment(line)) key += line;
    rest.remove_prefix(line.size());
  }
  return key;
}

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

CompiledKernel find_or_compile(const KernelRequest& request, Thrift thrift, KernelBuilder& builder) {
  CompiledKernel made{
      request.lowered,
      choose_cuda_schedule(*request.lowered, request.limits, request.preference, request.wide_index, thrift),
      {},
      {},
      builder.compiler.version,
      false};
  made.kernel = cuda_kernel(*made.lowered, made.schedule);
  auto edited = builder.overrides.find(cuda_kernel_file(made.kernel, builder.compiler, builder.architecture));
  if (edited) made.kernel.text = std::move(edited->text);
  std::optional<CacheEntry> code = builder.cache.find(key_of(made.kernel, builder));
  made.is_from_cache = code.has_value();
  made.code = code ? std::move(*code) : compile(made.kernel, builder);
  return made;
}

/// Bytes that a thread keeps in memory for want of registers. Compilers that say nothing of registers have enough.
std::int64_t stack_bytes(const CompiledKernel& compiled) {
  std::int64_t bytes = 0;
  for (const auto& [entry, resources] : resource_report(compiled.code.log))
    bytes += resources.stack_bytes + resources.spill_store_bytes;
  return bytes;
}

CompiledKernel compile_thriftily(const KernelRequest& request, KernelBuilder& builder) {
  CompiledKernel best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Thrift thrift : kThrifts) {
    CompiledKernel made = find_or_compile(request, thrift, builder);
    const std::int64_t bytes = stack_bytes(made);
    if (bytes < least) best = std::move(made), least = bytes;
    if (least == 0) break;
  }
  return best;
}

constexpr std::int64_t kBeyond = 1 << 24;

}  // namespace

bool needs_wide_index(const Plan& plan, const LoweredKernel& kernel, const DimValues& dims) {
  return std::ranges::any_of(kernel.uses, [&](const BufferUse& use) {
    return count_elements(plan.fused.program, use.tensor, dims) > std::numeric_limits<std::int32_t>::max() - kBeyond;
  });
}

std::string cuda_cache_key(const std::string& text, const Compiler& compiler, int architecture) {
  return fmt::format("{}{}\n", key_head("cuda kernel"), compiler.file) + text_key(text, compiler, architecture);
}

CompiledKernel compile_again(CompiledKernel refused, KernelBuilder& builder) {
  builder.cache.discard(key_of(refused.kernel, builder));
  refused.code = compile(refused.kernel, builder);
  refused.is_from_cache = false;
  return refused;
}

std::string cuda_kernel_file(const CudaKernel& kernel, const Compiler& compiler, int architecture) {
  return kernel_file_name(kernel.entry, text_key(kernel.text, compiler, architecture), ".cu");
}

std::vector<CompiledKernel> compile_kernels(const std::vector<KernelRequest>& requests, KernelBuilder& builder) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The longest first, so that no thread is left with much while the others have nothing.
  std::ranges::stable_sort(order, std::greater(),
                           [&](std::size_t i) { return requests[i].lowered->program.values.size(); });
  std::vector<CompiledKernel> compiled(requests.size());
  in_parallel(requests.size(),
              [&](std::size_t k) { compiled[order[k]] = compile_thriftily(requests[order[k]], builder); });
  return compiled;
}

}  // namespace moxie::cuda
