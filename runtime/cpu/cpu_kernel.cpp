#include "runtime/cpu/cpu_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/cache_file.h"
#include "runtime/cache_key.h"
#include "runtime/cpu/llvm_library.h"
#include "runtime/cpu/llvm_plugin.h"
#include "runtime/cpu/plugin.h"
#include "runtime/dump/line_parsers.h"
#include "runtime/log.h"

namespace moxie {
namespace {

/// Raised whenever the calling convention of kernels changes.
constexpr int kCodeVersion = 1;
/// What the texts of kernels without names call them.
constexpr const char* kSymbol = "kernel";

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

using CodePtr = std::shared_ptr<const CpuCode>;

/// A kernel's text as it is compiled.
struct KernelText {
  std::string kernel;  // its name
  std::string text;
  std::string symbol;               // what the text calls it
  std::filesystem::path file = {};  // that it was read from if it was not generated
  std::string key = {};             // in the cache
};

/// The text of a kernel without its name, so that those which differ in nothing else are one text.
std::string without_name(std::string text, const std::string& name, const std::string& symbol) {
  for (const char* end : {"", ".body"}) {
    const std::string from = llvm_global(name + end), to = llvm_global(symbol + end);
    for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  }
  return text;
}

KernelText text_of(const LoopProgram& program, const VectorMachine& machine, KernelOverrides* overrides) {
  std::string generated = llvm_text(program, machine);
  const std::string file = cpu_kernel_file(program.name, generated, machine);
  if (overrides != nullptr) {
    auto replacement = overrides->find(file);
    if (replacement) return {program.name, std::move(replacement->text), program.name, std::move(replacement->file)};
  }
  const SymbolConsumers consumers = symbol_consumers();
  // Debuggers show lines of the file that MOXIE_DUMP writes.
  if (consumers.gdb) return {program.name, with_debug_lines(generated, file), program.name};
  if (consumers.perf) return {program.name, std::move(generated), program.name};
  return {program.name, without_name(std::move(generated), program.name, kSymbol), kSymbol};
}

std::vector<KernelText> texts_of(std::span<const LoopProgram> programs, const VectorMachine& machine,
                                 KernelOverrides* overrides, const KeyedCache& keyed) {
  std::vector<KernelText> texts;
  for (const LoopProgram& program : programs) {
    texts.push_back(text_of(program, machine, overrides));
    texts.back().key = keyed.key(texts.back().text, machine);
  }
  return texts;
}

/// Throws CacheError for an object that lacks the kernel.
CodePtr load(const KernelText& source, std::string object) {
  auto code = std::make_shared<const CpuCode>(source.text, std::move(object));
  code->loaded.symbol(source.symbol);
  return code;
}

CodePtr from_cache(const KernelText& source, KernelCache* cache) {
  if (cache == nullptr) return nullptr;
  const auto entry = cache->find(source.key);
  if (!entry) return nullptr;
  try {
    return load(source, entry->object);
  } catch (const CacheError&) {
    cache->discard(source.key);
    return nullptr;
  }
}

CodePtr compile(const KernelText& source, const VectorMachine& machine, KernelCache* cache) {
  const auto start = std::chrono::steady_clock::now();
  const std::string object = compile_llvm(source.text, machine, LlvmOutput::object, source.file);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  log_info(LogChannel::Codegen, "compiled {} ({}) in {:.1f} ms: {} bytes of text, {} of code", source.kernel,
           key_digest(source.key), taken.count(), source.text.size(), object.size());
  try {
    CodePtr code = load(source, object);
    if (cache != nullptr) cache->store(source.key, {object, source.text, llvm_version()});
    return code;
  } catch (const CacheError& error) {
    if (source.file.empty()) throw;
    throw CompileError(fmt::format("{}: {}. A kernel defines @{} and refers to nothing outside of its module.",
                                   source.file.string(), error.what(), source.kernel));
  }
}

/// The code of each key.
std::map<std::string, CodePtr> code_of(const std::vector<KernelText>& texts, const VectorMachine& machine,
                                       KernelCache* cache) {
  std::map<std::string, CodePtr> code;
  std::vector<const KernelText*> missing;
  for (const KernelText& text : texts) {
    const auto [place, is_new] = code.try_emplace(text.key);
    if (is_new) place->second = from_cache(text, cache);
    if (is_new && !place->second) missing.push_back(&text);
  }
  // The longest first, so that no thread is left with much while the others have nothing.
  std::ranges::sort(missing, std::greater(), [](const KernelText* text) { return text->text.size(); });
  in_parallel(missing.size(), [&](std::size_t k) { code.at(missing[k]->key) = compile(*missing[k], machine, cache); });
  return code;
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

CpuCode::CpuCode(std::string text, std::string elf) : source(std::move(text)), object(std::move(elf)), loaded(object) {
  const SymbolConsumers consumers = symbol_consumers();
  if (consumers.any()) published = std::make_unique<const PublishedCode>(object, loaded, consumers);
}

CpuKernel::CpuKernel(const LoopProgram& program, const VectorMachine& machine, std::shared_ptr<const CpuCode> code,
                     const std::string& symbol)
    : name_(program.name),
      lanes_(lanes_for(program, machine)),
      arguments_(program.arguments),
      scratch_(scratch_size(program, machine)),
      code_(std::move(code)),
      entry_(reinterpret_cast<Entry*>(code_->loaded.symbol(symbol))) {}

std::int64_t CpuKernel::scratch_bytes(std::span<const std::int64_t> arguments) const {
  return scratch_.bytes([&](Symbol dim) {
    return arguments[static_cast<std::size_t>(std::ranges::find(arguments_, dim.name()) - arguments_.begin())];
  });
}

std::vector<CpuKernel::Ptr> CpuKernel::build_all(std::span<const LoopProgram> programs, const VectorMachine& machine,
                                                 KernelCache* cache, KernelOverrides* overrides) {
  if (programs.empty()) return {};
  const std::vector<KernelText> texts = texts_of(programs, machine, overrides, KeyedCache(cache));
  const std::map<std::string, CodePtr> code = code_of(texts, machine, cache);
  std::vector<Ptr> kernels;
  for (std::size_t i = 0; i < programs.size(); ++i)
    kernels.push_back(std::make_shared<const CpuKernel>(programs[i], machine, code.at(texts[i].key), texts[i].symbol));
  return kernels;
}

CpuKernel::Ptr CpuKernel::build(const LoopProgram& program, const VectorMachine& machine, KernelCache* cache,
                                KernelOverrides* overrides) {
  return build_all({&program, 1}, machine, cache, overrides).front();
}

}  // namespace moxie
