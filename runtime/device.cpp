#include "runtime/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "compiler/support/error.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/dump/dump_device.h"
#include "runtime/interp/interp_device.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

constexpr std::string_view kDeviceNames[] = {"cpu", "interp", "cuda", "cuda-emu", "auto"};

struct DeviceName {
  std::string_view kind;  // one of kDeviceNames
  int gpu = 0;
};

/// "cuda:1" is the driver's second GPU.
std::optional<DeviceName> parse_name(std::string_view name) {
  const std::size_t colon = name.find(':');
  DeviceName parsed{name.substr(0, colon)};
  if (std::ranges::find(kDeviceNames, parsed.kind) == std::end(kDeviceNames)) return std::nullopt;
  if (colon == std::string_view::npos) return parsed;
  const char *begin = name.data() + colon + 1, *end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(begin, end, parsed.gpu);
  const bool is_number = error == std::errc() && rest == end && parsed.gpu >= 0;
  return is_number && parsed.kind.starts_with("cuda") ? std::optional(parsed) : std::nullopt;
}

std::shared_ptr<Device> open_gpu(cuda::Platform platform, std::string_view name, const DeviceName& parsed,
                                 const DeviceOptions& options) {
  platform.name = name;
  platform.gpu = parsed.gpu;
  return make_cuda_device(std::move(platform), options);
}

std::shared_ptr<Device> open_known(std::string_view name, const DeviceName& parsed, const DeviceOptions& options) {
  if (options.stream != nullptr && !parsed.kind.starts_with("cuda"))
    throw UsageError(fmt::format("device {} has no streams; give DeviceOptions::stream to device cuda", name));
  if (parsed.kind == "interp") return make_interp_device();
  if (parsed.kind == "cuda") return open_gpu(cuda::nvidia_platform(), name, parsed, options);
  if (parsed.kind == "cuda-emu") return open_gpu(cuda::emulated_platform(), name, parsed, options);
  return make_cpu_device(options, host_machine());
}

std::shared_ptr<Device> open_best(const DeviceOptions& options) {
  try {
    return open_known("cuda", {"cuda"}, options);
  } catch (const DeviceError& error) {
    if (options.on_fallback) options.on_fallback(error.what());
    DeviceOptions without_stream = options;
    without_stream.stream = nullptr;
    return open_known("cpu", {"cpu"}, without_stream);
  }
}

}  // namespace

std::filesystem::path cache_directory(const DeviceOptions& options) {
  if (options.cache_directory.empty()) return default_cache_dir();
  return options.cache_directory == "0" ? std::filesystem::path() : std::filesystem::path(options.cache_directory);
}

std::unique_ptr<Buffer> Device::view_buffer(const TensorView& view) {
  if (!is_on_host(view)) refuse_memory_of(view.device, name());
  return make_host_view(view);
}

std::shared_ptr<Device> require_device(std::shared_ptr<Device> device) {
  if (!device) throw TypeError("the pointer to the device is null; give what open_device() returns");
  return device;
}

void refuse_memory_of(const std::string& memory, const std::string& device) {
  throw DeviceError(fmt::format(
      "a tensor in memory of '{}' was given to device {}; give it memory of the host, which is called 'cpu'{}, "
      "or open the device that the memory belongs to",
      memory, device, device.starts_with("cuda") ? ", or of this GPU" : ""));
}

std::span<const std::string_view> device_names() { return kDeviceNames; }

std::string problem_with_device_name(std::string_view name) {
  if (parse_name(name)) return {};
  return fmt::format("there is no device '{}'; choose one of: {}; cuda:1 is the second GPU", name,
                     fmt::join(kDeviceNames, ", "));
}

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  const auto parsed = parse_name(name);
  if (!parsed) throw DeviceError(problem_with_device_name(name));
  chosen_threads(options.threads);
  const auto open = [&](const DeviceOptions& chosen) {
    return parsed->kind == "auto" ? open_best(chosen) : open_known(name, *parsed, chosen);
  };
  const std::shared_ptr<Device> device = open_dumping(open, options);
  check_program_options(options.programs);
  device->set_program_options(options.programs);
  return device;
}

}  // namespace moxie
