#pragma once
// What several commands share: naming a device; and of tools/commands/program_choice.h: a Program and its dims.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tools/commands/option_parser.h"
#include "tools/commands/program_choice.h"

namespace moxie {

/// The options --device, --threads and --tune, and the switches behind them.
struct DeviceChoice {
  std::string name = "cpu";
  int threads = 0;
  bool tune = false;
  std::string cache_directory = {};  // as in DeviceOptions
};
void add_device_option(OptionParser& parser, DeviceChoice& choice);
void add_threads_option(OptionParser& parser, DeviceChoice& choice);
void add_tune_option(OptionParser& parser, DeviceChoice& choice);
/// The chosen device.
std::shared_ptr<Device> open_chosen_device(const DeviceChoice& choice);

/// The maximum of --seed and --step.
inline constexpr std::int64_t kMaxRandomState = std::numeric_limits<std::int64_t>::max();

}  // namespace moxie
