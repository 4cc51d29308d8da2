#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/cpu/matrix_products.h"
#include "runtime/cuda/emulator/cxx_compiler.h"
#include "runtime/cuda/emulator/driver_error.h"
#include "runtime/cuda/emulator/emulated_driver.h"
#include "runtime/cuda/platform.h"
#include "runtime/elements.h"

namespace moxie::cuda {
namespace {

/// Elements from a tensor's first to behind the last that the products use.
std::int64_t reach(const ProductMatrix& matrix, std::int64_t rows, std::int64_t columns,
                   const std::vector<ProductBatch>& batch, std::int64_t ProductBatch::* stride) {
  std::int64_t last = matrix.first + (rows - 1) * matrix.row_stride + (columns - 1) * matrix.column_stride;
  for (const ProductBatch& loop : batch) last += (loop.count - 1) * (loop.*stride);
  return last + 1;
}

/// Elements in 16 bits, which singles hold exactly.
std::vector<float> in_single(DType dtype, const void* first, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  load_elements(dtype, first, values);
  return {values.begin(), values.end()};
}

/// Checks the operands now, and multiplies when the stream does.
void multiply_on_host(const MatrixProductCall& call, Stream stream) {
  const auto& [rows, columns, depth, left_matrix, right_matrix, out_matrix, batch, band, masked, needed] = call.shape;
  if (rows == 0 || columns == 0 || batch_count(call.shape) == 0) return;
  const auto tensor = [&](DevicePointer pointer, std::int64_t elements, DType dtype) {
    const auto size = static_cast<std::size_t>(bytes_of(dtype));
    return emulator::device_range(pointer, static_cast<std::size_t>(elements) * size, "matrix product");
  };
  const std::int64_t left_count = depth == 0 ? 0 : reach(left_matrix, rows, depth, batch, &ProductBatch::left);
  const std::int64_t right_count = depth == 0 ? 0 : reach(right_matrix, depth, columns, batch, &ProductBatch::right);
  try {
    const auto* left = depth == 0 ? nullptr : tensor(call.left, left_count, call.operands);
    const auto* right = depth == 0 ? nullptr : tensor(call.right, right_count, call.operands);
    auto* out = tensor(call.out, reach(out_matrix, rows, columns, batch, &ProductBatch::out), call.dtype);
    emulator::enqueue(stream, [=, dtype = call.dtype, operands = call.operands, alpha = call.alpha, shape = call.shape,
                               adds = call.adds] {
      ThreadPool caller(1);
      if (operands == dtype) return gemm(caller, dtype, shape, alpha, left, right, out, adds);
      const std::vector<float> wide_left = in_single(operands, left, left_count);
      const std::vector<float> wide_right = in_single(operands, right, right_count);
      gemm(caller, dtype, shape, alpha, wide_left.data(), wide_right.data(), out, adds);
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
  return {"cuda-emu", emulator::emulated_driver(), {emulator::module_version(), compile}, multiply_on_host};
}

}  // namespace moxie::cuda
