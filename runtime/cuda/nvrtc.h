#pragma once
// NVRTC, NVIDIA's compiler as a library: CUDA C++ text to machine code.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/platform.h"
#include "runtime/cuda/shared_library.h"

namespace moxie::cuda {

class Nvrtc {
 public:
  /// Loads the library. Throws DeviceError where it is in none of the directories.
  explicit Nvrtc(std::vector<std::filesystem::path> directories = toolkit_directories());
  ~Nvrtc();

  /// "NVRTC 13.0"
  const std::string& version() const { return version_; }
  const std::string& file() const;
  /// The options that every kernel is compiled with, besides its architecture.
  const std::vector<std::string>& options() const { return options_; }
  /// 75 for sm_75, and so on, in ascending order.
  const std::vector<int>& architectures() const { return architectures_; }
  /// The module as a cubin that GPUs of the architecture run, or as PTX of the highest architecture that NVRTC knows
  /// for a GPU that is newer. The log tells what every kernel takes (resource_report). Throws CompileError with the log
  /// for text that it refuses, DeviceError for an architecture that it no longer knows. Any number of threads may
  /// compile at once.
  CacheEntry compile(const std::string& text, int architecture) const;
  /// The same, with the PTX that the machine code was made from.
  struct Compiled {
    CacheEntry entry;
    std::string ptx;
  };
  Compiled compile_with_ptx(const std::string& text, int architecture) const;
  /// The module as PTX, which drivers translate for GPUs of this architecture and all later ones. Throws as compile().
  CacheEntry compile_ptx(const std::string& text, int architecture) const;

 private:
  struct Functions;
  struct Target;
  Target choose_target(int architecture) const;
  Compiled compile(const std::string& text, const Target& target) const;

  std::unique_ptr<const Functions> functions_;
  std::string version_;
  std::vector<std::string> options_;
  std::vector<int> architectures_;
};

Compiler nvrtc_compiler(const std::shared_ptr<const Nvrtc>& nvrtc);
/// Calls of Nvrtc::compile() in this process.
std::int64_t nvrtc_compilations();

}  // namespace moxie::cuda
