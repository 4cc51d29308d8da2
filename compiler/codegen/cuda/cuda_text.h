#pragma once
// CUDA C++ text of one kernel. Pure: no toolkit is needed. The text compiles alone, without any header.
#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "compiler/support/line_table.h"

namespace moxie {

/// One parameter of the entry point, in order. Integers are passed as 64 bits, everything else is a pointer to device
/// memory.
struct CudaParameter {
  enum class Kind : std::uint8_t {
    buffer,  // `index` of the kernel's LoopProgram; of a buffer with partial results: those, if gridDim.y > 1, else the
             // tensor itself
    argument,     // the integer argument `name`: a dynamic dim, or the step of a scan
    workspace,    // CudaSchedule::workspace for each block
    random,       // CudaRandomState
    status,       // KernelStatus, one for all kernels of a Program: the first failure stays
    first_check,  // the number that the kernel's first check has in there
  };
  Kind kind;
  std::size_t index = 0;
  std::string name = {};
  bool operator==(const CudaParameter&) const = default;
};

/// Lies in device memory, so that a captured launch can be replayed with another step.
struct CudaRandomState {
  std::uint64_t seed = 0, step = 0;
};

struct CudaKernel {
  std::string entry;
  std::vector<CudaParameter> parameters;
  /// The second launch, where a loop over samples writes partial results and gridDim.y > 1; else empty. A lane per
  /// element: blocks of kWarp x kCombineRows along x for all elements of all tensors. Parameters: for each of
  /// `combined` the partial results, the tensor, and the number of its elements (64 bits); last the number of chunks
  /// (64 bits).
  std::string combine_entry;
  std::vector<BufferId> combined;
  std::string text;           // complete: fragments first
  std::size_t own_begin = 0;  // where the kernel's own text begins
  LineTable lines;            // of the text: to the printed LoopProgram
  std::string_view own_text() const { return std::string_view(text).substr(own_begin); }
};
/// Threads that combine the partial results of an element: of 800 a single one made 28 us on an H200.
inline constexpr int kCombineRows = 16;

CudaKernel cuda_kernel(const LoweredKernel& kernel, const CudaSchedule& schedule);

}  // namespace moxie
