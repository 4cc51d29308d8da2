#pragma once
// A device that writes what it compiles, for MOXIE_DUMP.
#include <filesystem>
#include <memory>

#include "runtime/device.h"

namespace moxie {

/// Works like `device`, and writes a folder per Plan into `folder`: every stage that dump_stages() knows.
std::shared_ptr<Device> make_dump_device(std::shared_ptr<Device> device, std::filesystem::path folder);

}  // namespace moxie
