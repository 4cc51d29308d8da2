#include "runtime/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "compiler/support/error.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/dump/dump_device.h"
#include "runtime/interp/interp_device.h"

namespace moxie {
namespace {

std::shared_ptr<Device> open_cpu(const DeviceOptions& options) { return make_cpu_device(options, host_machine()); }
std::shared_ptr<Device> open_interp(const DeviceOptions&) { return make_interp_device(); }
std::shared_ptr<Device> open_cuda(const DeviceOptions& options) {
  return make_cuda_device(cuda::nvidia_platform(), options);
}

std::shared_ptr<Device> open_cuda_emulator(const DeviceOptions& options) {
  return make_cuda_device(cuda::emulated_platform(), options);
}

std::shared_ptr<Device> open_best(const DeviceOptions& options) {
  try {
    return open_cuda(options);
  } catch (const DeviceError& error) {
    if (options.on_fallback) options.on_fallback(error.what());
    return open_cpu(options);
  }
}

constexpr std::array<std::string_view, 5> kDeviceNames = {"cpu", "interp", "cuda", "cuda-emu", "auto"};
constexpr std::array kOpeners = {open_cpu, open_interp, open_cuda, open_cuda_emulator, open_best};

}  // namespace

std::filesystem::path cache_directory(const DeviceOptions& options) {
  if (options.cache_directory.empty()) return default_cache_dir();
  return options.cache_directory == "0" ? std::filesystem::path() : std::filesystem::path(options.cache_directory);
}

std::span<const std::string_view> device_names() { return kDeviceNames; }

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  const auto known = std::ranges::find(kDeviceNames, name);
  if (known == kDeviceNames.end())
    throw DeviceError(fmt::format("there is no device '{}'; choose one of: {}", name, fmt::join(kDeviceNames, ", ")));
  chosen_threads(options.threads);
  return open_dumping(kOpeners[static_cast<std::size_t>(known - kDeviceNames.begin())], options);
}

}  // namespace moxie
