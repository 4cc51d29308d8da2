#include "runtime/device.h"

#include "compiler/support/error.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/interp/interp_device.h"

namespace moxie {

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  if (name == "cpu") return make_cpu_device(options, host_machine());
  if (name == "interp") return make_interp_device();
  throw DeviceError("there is no device '" + std::string(name) + "'; choose one of: cpu, interp");
}

}  // namespace moxie
