#pragma once
// CudaPlatform: all that a CUDA device needs from outside: a driver, a compiler, matrix products and a solver. NVIDIA's
// are found when first needed; the emulator's run on the CPU; tests put fakes in their place.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "compiler/expression/expr.h"
#include "runtime/cuda/driver.h"
#include "runtime/kernel_cache.h"
#include "runtime/product_call.h"

namespace moxie::cuda {

/// Compiles the text of one module for an architecture. Throws CompileError with the compiler's log.
struct Compiler {
  std::string version;  // "NVRTC 13.0", with the options
  /// `entries` are the module's kernels; `architecture` is 90 for sm_90. The object is what Driver::ModuleLoadData
  /// takes.
  std::function<CacheEntry(const std::string& text, std::span<const std::string> entries, int architecture)> compile;
  std::string file = {};  // tells this library or program from others of its version; part of every cache key
};

/// out = alpha * left * right for the whole batch, of tensors at these addresses. The products are enqueued on
/// `stream`, in strict precision; those of operands in f16 or bf16, which are exact in f32, are added up in f32.
struct MatrixProductCall {
  DType dtype = DType::f32;     // of the result
  DType operands = DType::f32;  // the same, or f16 or bf16 for a result in f32
  ProductCall shape;
  double alpha = 1;
  DevicePointer left = 0, right = 0, out = 0;
  bool adds = false;  // to what is there
};

/// Throws DeviceError.
using Multiply = std::function<void(const MatrixProductCall&, Stream)>;

class Solver;

struct Platform {
  std::string name;  // by which users choose the device: "cuda", "cuda:1" or "cuda-emu"
  Driver driver;
  Compiler compiler;
  Multiply multiply;
  int gpu = 0;                          // the number of the driver's GPU
  std::shared_ptr<Solver> solver = {};  // of large matrices; null: kernels factor all
};

/// NVIDIA's driver, NVRTC, cuBLAS and cuSOLVER, each loaded when first needed. Throws DeviceError that names what is
/// missing and how to get it.
Platform nvidia_platform();
/// The same kernels as C++ on the CPU, checked at every step: races, barriers and subscripts. Its compiler throws
/// DeviceError where the machine has none.
Platform emulated_platform();

}  // namespace moxie::cuda
