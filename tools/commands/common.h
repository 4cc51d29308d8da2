#pragma once
// What several commands share: naming a device; and of tools/commands/program_choice.h: a Program and its dims.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tools/commands/program_choice.h"

namespace moxie {

/// The options --device, --threads and --tune, and the switches behind them.
struct DeviceChoice {
  std::string name = "cpu";
  int threads = 0;
  bool tune = false;
  std::string cache_directory = {};  // as in DeviceOptions
};
void add_device_option(CLI::App& app, DeviceChoice& choice);
void add_threads_option(CLI::App& app, DeviceChoice& choice);
void add_tune_option(CLI::App& app, DeviceChoice& choice);
/// The chosen device.
std::shared_ptr<Device> open_chosen_device(const DeviceChoice& choice);

/// What --seed and --step may be.
CLI::Range random_state_range();

}  // namespace moxie
