#pragma once
// Options of a device for the Programs that run on it, and for looking at what becomes of them.
#include <optional>
#include <string>

namespace moxie {

/// Each stands for a switch of the environment (docs/switches.md), which counts where the option is left out. Values
/// are those of the switch; Session and CompiledFunction throw TypeError for others.
struct ProgramOptions {
  std::string checks = {};                // MOXIE_CHECK: bad values that kernels look for: "nan,negvar,bounds"
  std::optional<bool> check_inputs = {};  // MOXIE_CHECK_INPUTS: whether inputs must lie in their declared domains
  std::string memory = {};                // MOXIE_MEMORY: "2G": above this workspace, scans keep checkpoints
  std::string disabled_passes = {};       // MOXIE_DISABLE: passes to leave out, to find the one that makes a fault
};

/// What a device writes of all that it compiles; open_device() throws TypeError for names that are none. The switch of
/// each field counts where it is empty.
struct DumpRequest {
  std::string folder = {};   // MOXIE_DUMP; empty, and no switch: nothing is written
  std::string kernels = {};  // MOXIE_DUMP_FILTER: a regular expression that is found in the names of kernels
  std::string stages = {};   // MOXIE_DUMP_STAGES: "ir,loop,llvm"; empty: all
};

}  // namespace moxie
