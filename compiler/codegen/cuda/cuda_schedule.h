#pragma once
// CudaSchedule: how the loops of a kernel become blocks and threads of a GPU. Data: printable, comparable, overridable.
//
// A block has `lanes` x `rows` threads (threadIdx.x, threadIdx.y); CudaMapping says what they stand for. Sums over
// samples are kept per thread, combined over the rows of a block in shared memory, and over blocks by a second launch,
// always in the same order.
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_preference.h"
#include "compiler/loop/lower.h"
#include "compiler/loop/scratch_size.h"

namespace moxie {

inline constexpr int kWarp = 32;  // threads that execute together

/// What a schedule may count on.
struct GpuLimits {
  int multiprocessors = 132;
  int threads = 2048;                  // that a multiprocessor holds
  int block_shared_bytes = 48 * 1024;  // static shared memory: the same on every architecture from sm_75 on
  /// What slices of large tensors should take: enough for all multiprocessors to be busy much longer than a launch
  /// takes.
  std::int64_t slice_bytes = 128 << 20;
  bool operator==(const GpuLimits&) const = default;
};

/// Where the scratch of one array lies.
enum class ArrayPlace : std::uint8_t {
  registers,  // one per thread, every subscript known when compiling
  shared,     // one per lane of the block
  workspace,  // device memory: one per thread of the launch, or per lane of a block
};

/// Who computes an element of the vector loop.
enum class CudaMapping : std::uint8_t {
  /// A lane. Neighbours read neighbouring elements; rows share out the loop over samples or, where there is none, loops
  /// whose rounds are independent.
  thread,
  /// The lanes of a row together: they share out loops whose rounds are independent, and reductions. Every row has an
  /// element of its own.
  team,
  /// All rows of a block together: they share out loops whose rounds are independent, and scratch.
  block,
  /// Nobody else: a warp has rows of the result, whose terms its lanes look for together, and computes each with a lane
  /// for every element of the vector loop.
  search,
};

struct CudaSchedule {
  std::string name;
  CudaMapping mapping = CudaMapping::thread;
  int lanes = 32;
  int rows = 1;
  int width = 1;                   // neighbouring elements that a thread has of each sample
  bool persistent = false;         // as many blocks as fit the GPU go through the elements of the vector loop
  int blocks = 2;                  // per multiprocessor, where a launch is fitted to the GPU
  bool spread = false;             // independent rounds go to gridDim.y blocks too
  bool wide_index = false;         // 64-bit subscripts
  int unroll = 0;                  // of loops that need not be unrolled; 0: as the compiler likes
  std::vector<ArrayPlace> arrays;  // of the kernel's LoopProgram
  std::vector<BufferId> staged;    // tables copied to shared memory before the loop over samples
  ScratchSize workspace;           // the device memory that each block of threads takes for its arrays
  std::string reason;
  bool operator==(const CudaSchedule&) const = default;
};

/// How far a schedule goes to use few registers. A kernel that spills is compiled again with the next one.
enum class Thrift : std::uint8_t { none, some, most };
inline constexpr Thrift kThrifts[] = {Thrift::none, Thrift::some, Thrift::most};

/// Depends on what is known when compiling only, so that a batch of another size needs no new code.
CudaSchedule choose_cuda_schedule(const LoweredKernel& kernel, const GpuLimits& limits,
                                  const CudaPreference& preference = {}, bool wide_index = false,
                                  Thrift thrift = Thrift::none);
/// Elements of the vector loop that a block computes at once.
int elements_per_block(const CudaSchedule& schedule);
/// The rounds of a chunk that a block takes at once.
int rounds_at_once(const LoweredKernel& kernel, const CudaSchedule& schedule);
std::string print(const CudaSchedule& schedule);

/// Blocks of one launch: x along the vector loop, y along the samples.
struct CudaGrid {
  std::int64_t tiles = 1, chunks = 1;
  bool operator==(const CudaGrid&) const = default;
};
CudaGrid choose_cuda_grid(const LoweredKernel& kernel, const CudaSchedule& schedule, const GpuLimits& limits,
                          const DimValues& dims);

}  // namespace moxie
