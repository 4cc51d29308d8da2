#pragma once
// Times a Program on a device.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"
#include "tools/commands/common.h"

namespace moxie {

struct Measurement {
  std::string device;         // the device that `auto` stands for
  double seconds = 0;         // median of the runs
  double cpu_seconds = 0;     // median of their processor time, of all threads, which other work hardly changes
  double compile_s = 0;       // from the Program to the end of the first run, without the time of a run
  double compile_cpu_s = 0;   // the processor time of that
  std::int64_t launches = 0;  // kernels and library calls of one run; a scan's count once per step
  std::int64_t workspace_bytes = 0, input_bytes = 0, output_bytes = 0;
  std::size_t inputs = 0;  // which of the given inputs were used
  bool finite = true;      // whether every output of the first run was
};

/// Inputs and outputs of a measurement. `inputs` holds alternatives: the first one for which all outputs are finite is
/// used, or the first one with which the formula runs at all. Outputs in `feedback` become inputs of the next run.
struct Workload {
  DimValues dims;
  std::vector<TensorValues> inputs;
  std::vector<std::pair<std::string, std::string>> feedback = {};
};

/// Throws what Session throws; DeviceError if no alternative lies in the formula's domain.
Measurement measure(const Program& program, const Workload& workload, const DeviceChoice& device);

}  // namespace moxie
