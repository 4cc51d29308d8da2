#include "runtime/cuda/emulator/device_attributes.h"

#include <fmt/format.h>

#include <span>

#include "runtime/cuda/emulator/driver_error.h"

namespace moxie::cuda::emulator {
namespace {

struct Attribute {
  int number, value;
};

// CUdevice_attribute, with the values of an H200.
constexpr Attribute kDevice[] = {
    {1, 1024},        // MAX_THREADS_PER_BLOCK
    {2, 1024},        // MAX_BLOCK_DIM_X
    {3, 1024},        // MAX_BLOCK_DIM_Y
    {4, 64},          // MAX_BLOCK_DIM_Z
    {5, 2147483647},  // MAX_GRID_DIM_X
    {6, 65535},       // MAX_GRID_DIM_Y
    {7, 65535},       // MAX_GRID_DIM_Z
    {8, 49152},       // MAX_SHARED_MEMORY_PER_BLOCK
    {10, 32},         // WARP_SIZE
    {12, 65536},      // MAX_REGISTERS_PER_BLOCK
    {13, 1980000},    // CLOCK_RATE, in kHz
    {16, 132},        // MULTIPROCESSOR_COUNT
    {18, 0},          // INTEGRATED
    {31, 1},          // CONCURRENT_KERNELS
    {36, 3201000},    // MEMORY_CLOCK_RATE, in kHz
    {37, 6144},       // GLOBAL_MEMORY_BUS_WIDTH
    {38, 62914560},   // L2_CACHE_SIZE
    {39, 2048},       // MAX_THREADS_PER_MULTIPROCESSOR
    {40, 3},          // ASYNC_ENGINE_COUNT
    {41, 1},          // UNIFIED_ADDRESSING
    {75, 9},          // COMPUTE_CAPABILITY_MAJOR
    {76, 0},          // COMPUTE_CAPABILITY_MINOR
    {81, 233472},     // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    {82, 65536},      // MAX_REGISTERS_PER_MULTIPROCESSOR
    {97, 49152},      // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: the emulator grants no more
    {106, 32},        // MAX_BLOCKS_PER_MULTIPROCESSOR
};

// CUfunction_attribute. What a kernel takes of registers and memory is not known here.
constexpr Attribute kFunction[] = {
    {0, 1024},  // MAX_THREADS_PER_BLOCK
    {1, 0},     // SHARED_SIZE_BYTES
    {2, 0},     // CONST_SIZE_BYTES
    {3, 0},     // LOCAL_SIZE_BYTES
    {4, 32},    // NUM_REGS
    {5, 90},    // PTX_VERSION
    {6, 90},    // BINARY_VERSION
};

int look_up(std::span<const Attribute> table, int number, const char* kind) {
  for (const Attribute& attribute : table) {
    if (attribute.number == number) return attribute.value;
  }
  throw DriverError(kInvalidValue, fmt::format("the emulated device has no {} attribute {}", kind, number));
}

struct ErrorName {
  Result code;
  const char* name;
};
constexpr ErrorName kErrorNames[] = {
    {0, "CUDA_SUCCESS"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
    {kOperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
};

}  // namespace

int device_attribute(int attribute) { return look_up(kDevice, attribute, "device"); }
int function_attribute(int attribute) { return look_up(kFunction, attribute, "function"); }

const char* error_name(Result code) {
  for (const ErrorName& row : kErrorNames) {
    if (row.code == code) return row.name;
  }
  return "CUDA_ERROR_UNKNOWN";
}

}  // namespace moxie::cuda::emulator
