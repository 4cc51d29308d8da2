#pragma once
// LoadedKernel: a compiled kernel in the memory of a Gpu, ready to be launched.
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "compiler/support/error.h"
#include "runtime/cuda/compiled_kernel.h"
#include "runtime/cuda/gpu.h"

namespace moxie::cuda {

/// The driver does not take the code: it is damaged, or for another GPU or driver.
class RefusedCode : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

class LoadedKernel {
 public:
  /// Throws RefusedCode for code that this GPU or its driver refuses, DeviceError where memory is short and for blocks
  /// that its registers do not suffice for.
  LoadedKernel(std::shared_ptr<Gpu> gpu, CompiledKernel compiled);
  ~LoadedKernel();
  LoadedKernel(LoadedKernel&& other) noexcept;
  LoadedKernel& operator=(LoadedKernel&&) = delete;

  const CompiledKernel& compiled() const { return compiled_; }
  const LoweredKernel& lowered() const { return *compiled_.lowered; }
  const CudaSchedule& schedule() const { return compiled_.schedule; }

  /// Enqueue the kernel, and what combines its partial results: `elements` in all. Throw DeviceError with all that is
  /// known about the launch.
  void launch(const CudaGrid& grid, std::span<std::uint64_t> parameters) const;
  void launch_combination(std::int64_t elements, std::span<std::uint64_t> parameters) const;

 private:
  struct Shape {
    std::int64_t grid_x = 1, grid_y = 1;
    int block_x = 1, block_y = 1;
  };
  Function find(const std::string& entry) const;
  void launch(Function function, const Shape& shape, std::span<std::uint64_t> parameters) const;
  int attribute(Function function, int number) const;
  void check_block() const;
  std::string formulas() const;
  std::string describe(Function function, const Shape& shape) const;

  std::shared_ptr<Gpu> gpu_;
  CompiledKernel compiled_;
  Module module_ = nullptr;
  Function function_ = nullptr, combine_ = nullptr;
};

}  // namespace moxie::cuda
