#pragma once
// OpenBLAS, loaded when the first matrix product is prepared.
#include <cstdint>

#include "compiler/ir/expr.h"

namespace moxie {

struct GemmShape {
  bool left_transposed, right_transposed;
  std::int64_t rows, columns, depth;
};

/// out = alpha * left * right, row-major. Throws DeviceError if no BLAS can be loaded.
void gemm(DType dtype, const GemmShape& shape, double alpha, const void* left, const void* right, void* out);
/// Loads the library and sets its threads.
void prepare_blas(int threads);

}  // namespace moxie
