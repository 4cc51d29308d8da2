#include "runtime/device.h"

#include "compiler/support/error.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/interp/interp_device.h"

namespace moxie {

std::filesystem::path cache_directory(const DeviceOptions& options) {
  if (options.cache_directory.empty()) return default_cache_dir();
  return options.cache_directory == "0" ? std::filesystem::path() : std::filesystem::path(options.cache_directory);
}

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  if (name == "cpu") return make_cpu_device(options, host_machine());
  if (name == "interp") return make_interp_device();
  throw DeviceError("there is no device '" + std::string(name) + "'; choose one of: cpu, interp");
}

}  // namespace moxie
