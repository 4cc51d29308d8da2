#pragma once
// The driver's functions on the emulated device. There is one device in a process, and one call at a time runs on it.
#include <cstddef>
#include <functional>

#include "runtime/cuda/driver.h"

namespace moxie::cuda::emulator {

Driver emulated_driver();

/// `step` as a part of what the stream does. Throws DriverError.
void enqueue(Stream stream, std::function<void()> step);
/// Host memory that is `bytes` of device memory. Throws DriverError; `what` says who wants it.
std::byte* device_range(DevicePointer pointer, std::size_t bytes, const char* what);

}  // namespace moxie::cuda::emulator
