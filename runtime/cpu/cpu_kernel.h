#pragma once
// CpuKernel: a LoopProgram as machine code in memory.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/codegen/llvm/llvm_text.h"
#include "runtime/cpu/code_symbols.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_override.h"

namespace moxie {

/// Machine code in memory, and what it was made of.
struct CpuCode {
  std::string source;  // LLVM IR
  std::string object;  // ELF
  LoadedObject loaded;
  std::unique_ptr<const PublishedCode> published;  // where somebody wants to know

  /// Throws CacheError for an object that cannot be loaded.
  CpuCode(std::string source, std::string object);
};

class CpuKernel {
 public:
  using Ptr = std::shared_ptr<const CpuKernel>;

  /// Finds the kernel in `cache` (may be null) or compiles it; `overrides` (may be null) can replace its text. Throws
  /// CompileError.
  static Ptr build(const LoopProgram& program, const VectorMachine& machine, KernelCache* cache,
                   KernelOverrides* overrides = nullptr);
  /// The same for several at once; those that must be compiled are compiled by several threads. Kernels that differ in
  /// nothing but their names share their code: as many layers of a network do.
  static std::vector<Ptr> build_all(std::span<const LoopProgram> programs, const VectorMachine& machine,
                                    KernelCache* cache, KernelOverrides* overrides = nullptr);

  /// Calls the kernel. `buffers` and `arguments` are in the program's order, `scratch` has scratch_bytes() bytes
  /// aligned to 64, and `status` begins as KernelStatus{}. Any number of threads may call at once, each with its own
  /// scratch and status.
  void run(void* const* buffers, const std::int64_t* arguments, void* scratch, KernelStatus* status) const {
    entry_(buffers, arguments, scratch, status);
  }

  const std::string& name() const { return name_; }
  const ScratchSize& scratch() const { return scratch_; }
  /// Of a call with these arguments.
  std::int64_t scratch_bytes(std::span<const std::int64_t> arguments) const;
  int lanes() const { return lanes_; }
  /// LLVM IR, as it was compiled.
  const std::string& source() const { return code_->source; }
  /// The ELF object.
  const std::string& object() const { return code_->object; }

  /// Takes compiled code, in which the kernel is called `symbol`; build() is what users call. Throws CacheError where
  /// it is not there.
  CpuKernel(const LoopProgram& program, const VectorMachine& machine, std::shared_ptr<const CpuCode> code,
            const std::string& symbol);

 private:
  using Entry = void(void* const* buffers, const std::int64_t* arguments, void* scratch, KernelStatus* status);

  std::string name_;
  int lanes_;
  std::vector<std::string> arguments_;
  ScratchSize scratch_;
  std::shared_ptr<const CpuCode> code_;
  Entry* entry_;
};

/// What `cache` knows a kernel by: key_head(), the LLVM library, its pipeline, the machine, and the text without
/// comments.
std::string cpu_cache_key(const KernelCache& cache, const std::string& source, const VectorMachine& machine);
/// What all keys in `cache` begin with, as long as nothing else is loaded.
std::string cpu_key_head(const KernelCache& cache);
/// The file in which MOXIE_DUMP writes a kernel's generated text, and from which MOXIE_KERNEL_OVERRIDE takes another.
std::string cpu_kernel_file(const std::string& kernel, const std::string& source, const VectorMachine& machine);

}  // namespace moxie
