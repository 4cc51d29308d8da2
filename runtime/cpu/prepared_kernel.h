#pragma once
// A kernel of a Plan with all that its launches need: how it is split, its arguments and where its tensors lie.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/schedule/machine.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/host_memory.h"
#include "runtime/plan.h"

namespace moxie {

/// Where the launches of a kernel leave a tensor, or read it: in a scan, a slice of it at every step.
struct SlicePlace {
  const std::string* tensor = nullptr;
  std::int64_t bytes_per_step = 0;
  std::optional<ScanArgument> argument = {};  // which holds where the step lies; none outside of scans
  std::byte* memory = nullptr;                // filled in at each run

  std::byte* at(const ScanPosition& at) const { return memory + (argument ? argument->value(at) * bytes_per_step : 0); }
};

/// One kernel with everything that does not change from run to run.
struct PreparedKernel {
  std::size_t step = 0;  // of the plan
  const LoweredKernel* lowered = nullptr;
  CpuKernel::Ptr code;
  Partition partition;
  std::vector<std::int64_t> arguments;                                    // per call, one after the other
  std::vector<std::pair<std::size_t, ScanArgument>> scan_arguments = {};  // by their position in a call
  bool flushes = false;                                                   // see flushes_to_zero()
  bool alone = true;                 // all pieces on the calling thread: to wake others takes longer than they save
  std::vector<void*> buffers;        // of a call; inputs and outputs are filled in at each run
  std::vector<std::size_t> outside;  // buffers that are inputs or outputs
  struct Combination {
    std::size_t buffer;
    ReduceKind kind;
    DType dtype;
    std::int64_t count;  // in a scan: of one step
    bool has_gaps;       // elements that no loop writes, which are combined all the same
    SlicePlace out;
  };
  std::vector<Combination> combinations;
  std::vector<std::pair<std::size_t, SlicePlace>> slices;  // buffers that are filled in at each step of a scan
  std::vector<std::size_t> views;                          // buffers that are filled in at each slice
  std::vector<HostMemory> own_partials;  // where a measured partition has other chunks than the memory plan knows
  std::int64_t own_bytes = 0;            // of these
  std::string tuning_key;                // empty unless partitions are to be measured
};

/// Sums the partial results of all chunks to `out`, in their order, in double.
void combine(const PreparedKernel::Combination& combination, const PreparedKernel& kernel, void* out);

/// Whether one thread finishes a launch sooner, by estimate, than it wakes others to help. Values do not depend on it.
bool is_faster_alone(const LoweredKernel& kernel, const DimValues& dims, const Machine& machine, int threads);
/// The most tiles of a launch. Values do not depend on them.
std::int64_t most_tiles(int threads);

}  // namespace moxie
