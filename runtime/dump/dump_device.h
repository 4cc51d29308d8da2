#pragma once
// A device that writes what it compiles, for DeviceOptions::dump and MOXIE_DUMP.
#include <functional>
#include <memory>

#include "runtime/device.h"

namespace moxie {

/// The device that `open` gives or, where the options or MOXIE_DUMP name a folder, one that works like it and writes a
/// dump per Plan into a folder of its own, whether or not kernels come from a cache. When it goes, it adds the times of
/// kernels, where the device measures them.
std::shared_ptr<Device> open_dumping(const std::function<std::shared_ptr<Device>(const DeviceOptions&)>& open,
                                     DeviceOptions options);

}  // namespace moxie
