#pragma once
// MatrixKernels: what a library of linear algebra leaves to kernels, as codegen_templates/cuda/matrices.cuh has it.
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>

#include "runtime/cuda/compiled_kernel.h"
#include "runtime/cuda/gpu.h"

namespace moxie::cuda {

/// Which elements of a matrix are copied.
enum class MatrixPart : std::uint8_t { all, lower, upper, mirrored, unit };
/// What is asked of the diagonal of a factor.
enum class PivotRule : std::uint8_t { positive, not_zero, finite_not_zero, converged };

class MatrixKernels {
 public:
  static constexpr int kBlockThreads = 256;

  /// Finds the code in the cache, or compiles it. Throws CompileError, DeviceError.
  MatrixKernels(std::shared_ptr<Gpu> gpu, KernelBuilder& builder);
  ~MatrixKernels();
  MatrixKernels(const MatrixKernels&) = delete;
  MatrixKernels& operator=(const MatrixKernels&) = delete;

  /// Enqueues the kernel of this name for elements of `dtype`, with `blocks` blocks. All parameters have 64 bits.
  /// Throws DeviceError.
  void launch(const char* name, DType dtype, std::int64_t blocks,
              std::initializer_list<std::uint64_t> parameters) const;

 private:
  void load(KernelBuilder& builder);
  void find_functions();

  std::shared_ptr<Gpu> gpu_;
  Module module_ = nullptr;
  std::map<std::string, Function> functions_;
};

}  // namespace moxie::cuda
