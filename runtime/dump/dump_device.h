#pragma once
// A device that writes what it compiles, for MOXIE_DUMP.
#include <filesystem>
#include <memory>

#include "runtime/device.h"
#include "runtime/dump/dump.h"

namespace moxie {

/// Works like `device`, and writes a dump per Plan into a folder of its own below `folder`, whether or not its kernels come from a cache.
std::shared_ptr<Device> make_dump_device(std::shared_ptr<Device> device, std::filesystem::path folder, DumpOptions options);
/// The same as MOXIE_DUMP and the switches beside it say; `device` itself where MOXIE_DUMP is not set.
std::shared_ptr<Device> dumping(std::shared_ptr<Device> device, const DeviceOptions& options);

}  // namespace moxie
