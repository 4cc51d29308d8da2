#pragma once
// A folder that reruns one kernel alone: its text, its code, what it read in a run, what it wrote there, and a program
// in C that compares.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch_observer.h"

namespace moxie {

/// Everything that a launch was given, and what it left.
struct CapturedLaunch {
  struct Memory {
    std::string name;  // of the tensor
    bool written = false;
    DType dtype = DType::f32;
    std::string before, after;  // bytes
  };
  LoopProgram program;
  std::vector<Memory> buffers;
  std::vector<std::int64_t> arguments;  // of all calls
};

/// Keeps the first launch of the kernel of that name.
class LaunchCapture : public LaunchObserver {
 public:
  explicit LaunchCapture(std::string kernel) : kernel_(std::move(kernel)) {}
  void before(const LoweredKernel& kernel, const Plan& plan, std::span<void* const> buffers,
              std::span<const std::int64_t> arguments) override;
  void after(const LoweredKernel& kernel) override;
  const std::optional<CapturedLaunch>& launch() const { return launch_; }

 private:
  std::string kernel_;
  std::optional<CapturedLaunch> launch_;
  std::vector<void*> addresses_;
  bool is_open_ = false;
};

/// Throws DataError where the folder holds something else or cannot be written. `cuda` is the kernel as CUDA C++.
void write_repro(const CapturedLaunch& launch, const std::string& cuda, const std::filesystem::path& folder);

}  // namespace moxie
