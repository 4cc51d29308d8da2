#pragma once
// cuBLAS, loaded when the first matrix product is enqueued.
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

/// Matrix products in strict precision, for Platform::multiply. Handles are made as streams come and last as long as
/// the function.
Multiply cublas_multiply(const Driver& driver, std::vector<std::filesystem::path> directories = toolkit_directories());
/// "cuBLAS 13.0". Throws DeviceError where there is none.
std::string cublas_version(std::vector<std::filesystem::path> directories = toolkit_directories());

}  // namespace moxie::cuda
