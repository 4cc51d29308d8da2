#pragma once
// The device of a Platform: "cuda", "cuda:1" or "cuda-emu".
#include <memory>

#include "runtime/cuda/platform.h"
#include "runtime/device.h"

namespace moxie {

/// Throws DeviceError where its GPU cannot be opened.
std::shared_ptr<Device> make_cuda_device(cuda::Platform platform, const DeviceOptions& options);

}  // namespace moxie
