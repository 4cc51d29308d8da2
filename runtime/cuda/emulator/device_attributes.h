#pragma once
// What the emulated device says of itself: that it is a GPU of architecture sm_90.
#include "runtime/cuda/driver.h"

namespace moxie::cuda::emulator {

inline constexpr const char* kDeviceName = "moxie emulator (sm_90 on the CPU)";
inline constexpr int kDriverVersion = 12080;  // 12.8, as the driver counts

/// By the numbers of cuda.h. Throw DriverError for those that moxie has no use for.
int device_attribute(int attribute);
int function_attribute(int attribute);
/// "CUDA_ERROR_INVALID_VALUE"
const char* error_name(Result code);

}  // namespace moxie::cuda::emulator
