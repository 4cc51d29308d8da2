#pragma once
// CudaSchedule: how the loops of a kernel become blocks and threads of a GPU. Data: printable, comparable, overridable.
//
// A block has `lanes` x `rows` threads. Lanes (threadIdx.x) run along the vector loop, so that neighbours read neighbouring elements; rows
// (threadIdx.y) share out the loop over samples or, where there is none, loops whose rounds are independent. Sums over samples are kept per thread,
// combined over the rows of a block in shared memory, and over blocks by a second launch, always in the same order.
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/loop/lower.h"

namespace moxie {

/// What a schedule may count on.
struct GpuLimits {
  int multiprocessors = 132;
  int block_shared_bytes = 48 * 1024;  // static shared memory: the same on every architecture from sm_75 on
  bool operator==(const GpuLimits&) const = default;
};

/// Where the scratch of one array lies.
enum class ArrayPlace : std::uint8_t {
  registers,  // one per thread, every subscript known when compiling
  shared,     // one per lane of the block
  workspace,  // device memory: one per thread of the launch, or per lane of a block
};

struct CudaSchedule {
  std::string name;
  int lanes = 32;
  int rows = 1;
  bool matrix_per_block = false;  // the vector loop runs over blocks, one round each; all threads share its loops out
  bool spread = false;            // independent rounds go to gridDim.y blocks too
  bool wide_index = false;        // 64-bit subscripts
  int unroll = 0;                 // of loops that need not be unrolled; 0: as the compiler likes
  std::vector<ArrayPlace> arrays; // of the kernel's LoopProgram
  std::vector<BufferId> staged;   // tables copied to shared memory before the loop over samples
  std::int64_t workspace_bytes_per_block = 0;
  std::string reason;
  bool operator==(const CudaSchedule&) const = default;
};

/// How far a schedule goes to use few registers. A kernel that spills is compiled again with the next one.
enum class Thrift : std::uint8_t { none, some, most };
inline constexpr Thrift kThrifts[] = {Thrift::none, Thrift::some, Thrift::most};

/// Depends on what is known when compiling only, so that a batch of another size needs no new code.
CudaSchedule choose_cuda_schedule(const LoweredKernel& kernel, const GpuLimits& limits, bool wide_index = false, Thrift thrift = Thrift::none);
std::string print(const CudaSchedule& schedule);

/// Blocks per multiprocessor that fill it.
inline constexpr std::int64_t kBlocksPerMultiprocessor = 2;

/// Blocks of one launch: x along the vector loop, y along the samples.
struct CudaGrid {
  std::int64_t tiles = 1, chunks = 1;
  bool operator==(const CudaGrid&) const = default;
};
CudaGrid choose_cuda_grid(const LoweredKernel& kernel, const CudaSchedule& schedule, const GpuLimits& limits, const DimValues& dims);

}  // namespace moxie
