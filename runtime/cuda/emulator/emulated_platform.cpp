#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/cpu/blas.h"
#include "runtime/cuda/emulator/cxx_compiler.h"
#include "runtime/cuda/emulator/driver_error.h"
#include "runtime/cuda/emulator/emulated_driver.h"
#include "runtime/cuda/platform.h"

namespace moxie::cuda {
namespace {

/// Checks the operands now, and multiplies when the stream does.
void multiply(const MatrixProductCall& call, Stream stream) {
  const auto matrix = [&](DevicePointer pointer, std::int64_t rows, std::int64_t columns) {
    return emulator::device_range(
        pointer, static_cast<std::size_t>(rows * columns) * (call.dtype == DType::f32 ? sizeof(float) : sizeof(double)),
        "matrix product");
  };
  try {
    const auto* left = matrix(call.left, call.rows, call.depth);
    const auto* right = matrix(call.right, call.depth, call.columns);
    auto* out = matrix(call.out, call.rows, call.columns);
    const ProductCall shape{call.left_transposed, call.right_transposed, call.rows, call.columns, call.depth};
    emulator::enqueue(stream, [=, dtype = call.dtype, alpha = call.alpha] {
      ThreadPool caller(1);
      gemm(caller, dtype, shape, alpha, left, right, out);
    });
  } catch (const emulator::DriverError& error) {
    throw DeviceError(error.what());
  }
}

}  // namespace

Platform emulated_platform() {
  const auto compile = [](const std::string& text, std::span<const std::string> entries, int) {
    return emulator::compile_module(text, entries);
  };
  return {"cuda-emu", emulator::emulated_driver(), {emulator::module_version(), compile}, multiply};
}

}  // namespace moxie::cuda
