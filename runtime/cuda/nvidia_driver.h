#pragma once
// NVIDIA's driver as a table of functions.
#include <string>

#include "runtime/cuda/driver.h"

namespace moxie::cuda {

/// Loads the driver and starts it. Throws DeviceError where there is none, where it is too old, and where it finds no
/// GPU.
Driver nvidia_driver(const std::string& file = "libcuda.so.1");
/// "12.4"
std::string version_text(int version);
/// What the driver calls an error, and its explanation.
std::string error_text(const Driver& driver, Result error);

}  // namespace moxie::cuda
