#include "tools/commands/common.h"

#include <fmt/format.h>

#include <limits>

#include "runtime/switches.h"
#include "tools/commands/command.h"

namespace moxie {

void add_device_option(CLI::App& app, DeviceChoice& choice) {
  const std::span<const std::string_view> names = device_names();
  app.add_option("--device", choice.name, "where to run; interp is the slow reference, auto the GPU if there is one")
      ->capture_default_str()
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())))
      ->envname("MOXIE_DEVICE");
}

void add_threads_option(CLI::App& app, DeviceChoice& choice) {
  app.add_option("--threads", choice.threads, "threads; 0: as many as there are processors")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024))
      ->envname("MOXIE_THREADS");
}

void add_tune_option(CLI::App& app, DeviceChoice& choice) {
  app.add_flag("--tune", choice.tune,
               "share kernels out as measured, not as estimated; measurements are kept in the kernel cache. Sums may "
               "round otherwise than without");
}

CLI::Range random_state_range() { return {std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}; }

std::shared_ptr<Device> open_chosen_device(const DeviceChoice& choice) {
  const auto explain = [](const std::string& reason) {
    fmt::print(stderr, "moxie: --device auto takes the CPU: {}\n", reason);
  };
  return open_device(choice.name, {choice.threads, choice.cache_directory, choice.tune, explain});
}

}  // namespace moxie
