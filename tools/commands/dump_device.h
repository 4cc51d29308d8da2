#pragma once
// A device that writes what it compiles, for MOXIE_DUMP.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace moxie {

struct DumpDeviceOptions {
  std::filesystem::path folder;
  std::string filter;               // a regular expression that the names of kernels must match somewhere; empty: all
  std::vector<std::string> stages;  // empty: all
};

/// Works like `device`, and writes a folder per Plan: a file for every stage, and one for the text of every kernel,
/// under the name by which MOXIE_KERNEL_OVERRIDE knows it.
std::shared_ptr<Device> make_dump_device(std::shared_ptr<Device> device, DumpDeviceOptions options);

}  // namespace moxie
