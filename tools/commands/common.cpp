#include "tools/commands/common.h"

#include <fmt/format.h>

#include "runtime/cpu/thread_pool.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"

namespace moxie {

void add_device_option(OptionParser& parser, DeviceChoice& choice) {
  parser
      .add_option("--device", choice.name,
                  "where to run; interp is the slow reference, auto the GPU if there is one, cuda:1 the second GPU")
      .show_default()
      .one_like(device_names(), problem_with_device_name)
      .environment("MOXIE_DEVICE");
}

void add_threads_option(OptionParser& parser, DeviceChoice& choice) {
  parser.add_option("--threads", choice.threads, "threads; 0: as many as there are processors")
      .show_default()
      .in_range(0, maximum_threads())
      .environment("MOXIE_THREADS");
}

void add_tune_option(OptionParser& parser, DeviceChoice& choice) {
  parser.add_flag(
      "--tune", choice.tune,
      "share kernels out as measured, not as estimated; measurements are kept in the kernel cache. Sums may "
      "round otherwise than without");
}

std::shared_ptr<Device> open_chosen_device(const DeviceChoice& choice) {
  const auto explain = [](const std::string& reason) {
    fmt::print(stderr, "moxie: --device auto takes the CPU: {}\n", reason);
  };
  return open_device(choice.name, {choice.threads, choice.cache_directory, choice.tune, explain});
}

}  // namespace moxie
