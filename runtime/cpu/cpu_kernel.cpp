#include "runtime/cpu/cpu_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/cache_file.h"
#include "runtime/cache_key.h"
#include "runtime/cpu/llvm_library.h"
#include "runtime/cpu/llvm_plugin.h"
#include "runtime/cpu/plugin.h"
#include "runtime/dump/line_parsers.h"
#include "runtime/log.h"
#include "runtime/parallel.h"

namespace moxie {
namespace {

/// Raised whenever the calling convention of kernels changes.
constexpr int kCodeVersion = 1;

/// What a kernel's text decides: the text without comments, and the machine.
std::string text_key(const std::string& source, const VectorMachine& machine) {
  std::string key = fmt::format("cpu kernel {} {} {} {} {} {}\n", kCodeVersion, MOXIE_VERSION, MOXIE_LLVM_VERSION,
                                machine.triple, machine.features, machine.vector_bits);
  for (std::size_t begin = 0; begin < source.size();) {
    const std::size_t end = std::min(source.find('\n', begin), source.size() - 1) + 1;
    if (source[begin] != ';') key.append(source, begin, end - begin);
    begin = end;
  }
  return key;
}

/// A cache, and what the keys of all kernels of a Plan begin with.
struct KeyedCache {
  KernelCache* cache = nullptr;
  std::string head = {};

  explicit KeyedCache(KernelCache* chosen) : cache(chosen), head(chosen ? cpu_key_head(*chosen) : "") {}
  std::string key(const std::string& source, const VectorMachine& machine) const {
    return head + text_key(source, machine);
  }
};

CpuKernel::Ptr from_cache(const LoopProgram& program, const VectorMachine& machine, const std::string& source,
                          const KeyedCache& keyed) {
  KernelCache* cache = keyed.cache;
  if (cache == nullptr) return nullptr;
  const std::string key = keyed.key(source, machine);
  const auto entry = cache->find(key);
  if (!entry) return nullptr;
  try {
    return std::make_shared<const CpuKernel>(program, machine, source, entry->object);
  } catch (const CacheError&) {
    cache->discard(key);
    return nullptr;
  }
}

/// A kernel's text, and the file that it was read from if it was not generated.
struct KernelText {
  std::string text;
  std::filesystem::path file = {};
};

KernelText text_of(const LoopProgram& program, const VectorMachine& machine, KernelOverrides* overrides) {
  std::string generated = llvm_text(program, machine);
  const std::string file = cpu_kernel_file(program.name, generated, machine);
  if (overrides != nullptr) {
    auto replacement = overrides->find(file);
    if (replacement) return {std::move(replacement->text), std::move(replacement->file)};
  }
  // Debuggers show lines of the file that MOXIE_DUMP writes.
  if (symbol_consumers().gdb) return {with_debug_lines(generated, file)};
  return {std::move(generated)};
}

CpuKernel::Ptr load(const LoopProgram& program, const VectorMachine& machine, const KernelText& source,
                    const std::string& object) {
  try {
    return std::make_shared<const CpuKernel>(program, machine, source.text, object);
  } catch (const CacheError& error) {
    if (source.file.empty()) throw;
    throw CompileError(fmt::format("{}: {}. A kernel defines @{} and refers to nothing outside of its module.",
                                   source.file.string(), error.what(), program.name));
  }
}

CpuKernel::Ptr compile(const LoopProgram& program, const VectorMachine& machine, const KernelText& source,
                       const KeyedCache& keyed) {
  const auto start = std::chrono::steady_clock::now();
  const std::string object = compile_llvm(source.text, machine, LlvmOutput::object, source.file);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  const std::string key = keyed.key(source.text, machine);
  log_info(LogChannel::Codegen, "compiled {} ({}) in {:.1f} ms: {} bytes of text, {} of code", program.name,
           key_digest(key), taken.count(), source.text.size(), object.size());
  CpuKernel::Ptr kernel = load(program, machine, source, object);
  if (keyed.cache != nullptr) keyed.cache->store(key, {object, source.text, llvm_version()});
  return kernel;
}

}  // namespace

std::string cpu_key_head(const KernelCache& cache) {
  return fmt::format("{}{}\n{}\n", key_head("cpu kernel"), llvm_library(cache.directory()), MOXIE_LLVM_PIPELINE);
}

std::string cpu_cache_key(const KernelCache& cache, const std::string& source, const VectorMachine& machine) {
  return cpu_key_head(cache) + text_key(source, machine);
}

std::string cpu_kernel_file(const std::string& kernel, const std::string& source, const VectorMachine& machine) {
  return kernel_file_name(kernel, text_key(source, machine), ".ll");
}

CpuKernel::CpuKernel(const LoopProgram& program, const VectorMachine& machine, std::string source, std::string object)
    : name_(program.name),
      source_(std::move(source)),
      object_(std::move(object)),
      lanes_(lanes_for(program, machine)),
      scratch_bytes_(moxie::scratch_bytes(program, machine)),
      code_(object_),
      entry_(reinterpret_cast<Entry*>(code_.symbol(program.name))) {
  const SymbolConsumers consumers = symbol_consumers();
  if (consumers.any()) published_ = std::make_unique<const PublishedCode>(object_, code_, consumers);
}

std::vector<CpuKernel::Ptr> CpuKernel::build_all(std::span<const LoopProgram> programs, const VectorMachine& machine,
                                                 KernelCache* cache, KernelOverrides* overrides) {
  if (programs.empty()) return {};
  std::vector<Ptr> kernels;
  std::vector<KernelText> sources;
  std::vector<std::size_t> missing;
  const KeyedCache keyed(cache);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    sources.push_back(text_of(programs[i], machine, overrides));
    kernels.push_back(from_cache(programs[i], machine, sources[i].text, keyed));
    if (!kernels[i]) missing.push_back(i);
  }
  // The longest first, so that no thread is left with much while the others have nothing.
  std::ranges::sort(missing, std::greater(), [&](std::size_t i) { return sources[i].text.size(); });
  in_parallel(missing.size(), [&](std::size_t k) {
    const std::size_t i = missing[k];
    kernels[i] = compile(programs[i], machine, sources[i], keyed);
  });
  return kernels;
}

CpuKernel::Ptr CpuKernel::build(const LoopProgram& program, const VectorMachine& machine, KernelCache* cache,
                                KernelOverrides* overrides) {
  return build_all({&program, 1}, machine, cache, overrides).front();
}

}  // namespace moxie
