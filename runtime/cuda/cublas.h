#pragma once
// cuBLAS, loaded when the first matrix product or triangular solve is enqueued.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/cuda/platform.h"
#include "runtime/cuda/shared_library.h"

namespace moxie::cuda {

/// Products of row-major matrices as cuBLAS is asked for them. It counts column by column, to which they are
/// transposed: so the transposed products, right^T * left^T. One call computes `count` of them.
struct GemmArguments {
  bool first_transposed = false, second_transposed = false;
  int m = 0, n = 0, k = 0;
  DevicePointer first = 0, second = 0, out = 0;
  int first_stride = 0, second_stride = 0, out_stride = 0;  // from column to column
  int count = 1;
  std::int64_t first_step = 0, second_step = 0, out_step = 0;  // elements from product to product
};
/// The calls that compute a whole batch: one for all of its longest loop, for each step of the others.
/// Throws DeviceError for extents beyond 31 bits.
std::vector<GemmArguments> gemm_arguments(const MatrixProductCall& call);

/// A triangular matrix A and the right-hand sides b that become solutions in place, as cuBLAS is asked for them: of
/// op(A) x = b, or of x op(A) = b where `right`. Columns lie one after the other.
struct TriangleArguments {
  bool right = false, upper = false, transposed = false;
  int m = 0, n = 0;  // rows and columns of b
  DevicePointer triangle = 0, b = 0;
  int triangle_stride = 0, b_stride = 0;  // from column to column
};
/// Throws DeviceError.
using SolveTriangle = std::function<void(DType dtype, const TriangleArguments&, Stream)>;

/// Matrix products and triangular solves in strict precision. Handles are made as streams come and last as long as the
/// functions.
struct CublasCalls {
  Multiply multiply;
  SolveTriangle solve_triangle;
};
CublasCalls cublas_calls(const Driver& driver, std::vector<std::filesystem::path> directories = toolkit_directories());
/// "cuBLAS 13.0". Throws DeviceError where there is none.
std::string cublas_version(std::vector<std::filesystem::path> directories = toolkit_directories());

}  // namespace moxie::cuda
