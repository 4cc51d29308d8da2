#pragma once
// cuBLAS, loaded when the first matrix product is enqueued.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/cuda/platform.h"
#include "runtime/cuda/shared_library.h"

namespace moxie::cuda {

/// Matrix products in strict precision, for Platform::multiply. Handles are made as streams come and last as long as
/// the function.
Multiply cublas_multiply(const Driver& driver, std::vector<std::filesystem::path> directories = toolkit_directories());
/// "cuBLAS 13.0". Throws DeviceError where there is none.
std::string cublas_version(std::vector<std::filesystem::path> directories = toolkit_directories());

}  // namespace moxie::cuda
