#pragma once
// Lowering: a fused kernel becomes a LoopProgram.
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "compiler/fuse/fuse.h"
#include "compiler/fuse/slices.h"
#include "compiler/loop/loop_program.h"

namespace moxie {

/// Enough for any number of cores of one machine, few enough that partial results stay small.
inline constexpr std::int64_t kMostChunks = 16;

/// A loop whose bounds are arguments, so that calls can share it out.
struct SplitLoop {
  Range range;  // the whole loop, affine in dims
  std::string low_argument, high_argument;
  bool over_lanes = false;                 // pieces start at multiples of the lanes
  std::int64_t least_rows = 1;             // that a piece should have
  std::int64_t most_pieces = kMostChunks;  // of chunks
  bool repeats_work = false;               // every piece reads all terms, to take those of its rows
  bool operator==(const SplitLoop&) const = default;
};

/// What a buffer argument holds.
struct BufferUse {
  std::string tensor;
  bool written = false;
  /// One copy of the tensor (in a scan: of its slice at the step) per chunk, summed or otherwise combined afterwards in
  /// the order of the chunks. With one chunk the buffer is the tensor itself (in a scan: starts at the slice).
  std::optional<ReduceKind> partial;
  std::string source = {};  // of what is written, see cite()
  bool operator==(const BufferUse&) const = default;
};

struct LoweredKernel {
  LoopProgram program;
  std::vector<BufferUse> uses;      // per buffer of the program
  std::optional<SplitLoop> tiles;   // independent pieces
  std::optional<SplitLoop> chunks;  // pieces that write partial results, numbered by the argument %chunk of %chunks
  bool in_scan = false;             // takes the step as an argument
  /// The same for threads in the place of lanes, where `program` has the vector loop inside all others: a processor
  /// then walks through memory as it lies.
  struct ForThreads {
    LoopProgram program;
    std::optional<SplitLoop> tiles;
    bool operator==(const ForThreads&) const = default;
  };
  std::optional<ForThreads> threads = {};
  int team = 0;  // threads of a GPU that compute an element together; 0: as its loops suggest
  bool operator==(const LoweredKernel&) const = default;
};

using LoweredScanStep = std::variant<LoweredKernel, MatrixProduct, AlgebraCall>;

/// A scan with its kernels lowered.
struct LoweredScan {
  std::string name;
  Affine extent;
  bool backwards = false;
  std::vector<LoweredScanStep> steps;
  bool operator==(const LoweredScan&) const = default;
};

using LoweredSliceStep = std::variant<LoweredKernel, MatrixProduct, AlgebraCall, OrderedSumCall, LoweredScan>;

/// Steps that run for every slice of some indices.
struct LoweredSlices {
  Slices slices;
  std::vector<LoweredSliceStep> steps;
  bool operator==(const LoweredSlices&) const = default;
};

/// What a device runs, one after the other.
using LoweredStep = std::variant<LoweredKernel, MatrixProduct, AlgebraCall, OrderedSumCall, LoweredScan, LoweredSlices>;

/// The kernel with the program for threads as its only one.
LoweredKernel for_threads(LoweredKernel kernel);
/// A kernel of reductions over ranges by data whose lanes run through a range each, which lanes of a GPU do; nothing
/// for other kernels.
std::optional<LoweredKernel> lower_ranges_of_threads(const FusedProgram& fused, const Kernel& kernel);

/// Names of the arguments that every kernel takes besides the program's dynamic dims.
namespace argument {
inline constexpr const char* kChunk = "%chunk";
inline constexpr const char* kChunks = "%chunks";
inline constexpr const char* kTileLow = "%tile_low";
inline constexpr const char* kTileHigh = "%tile_high";
inline constexpr const char* kChunkLow = "%chunk_low";
inline constexpr const char* kChunkHigh = "%chunk_high";
inline constexpr const char* kSeed = "%seed";
inline constexpr const char* kStep = "%step";
}  // namespace argument

/// The names of all arguments, in their order. A kernel of a scan also takes the step, and the places of
/// the steps of folded tensors that it writes or reads.
std::vector<std::string> kernel_arguments(const Program& program, const std::set<std::string>& of_scan = {});
/// "mean (line 4)": a definition and where it stands, for comments.
std::string cite(const Definition& definition);
/// "line 4: mean = sum[n](x[n])/N", for LoopProgram::comments.
std::string definition_comment(const Definition& definition, const Program& program);
/// A name that every code generator's language takes.
std::string kernel_name(std::string name);
/// A tensor as a buffer that is read.
BufferDecl declare_buffer(const FusedProgram& fused, const std::string& tensor);
/// Room for the partial results of every chunk: the slowest axis of the buffer counts the chunks.
void add_chunk_axis(BufferDecl& buffer);

LoweredKernel lower(const FusedProgram& fused, const Kernel& kernel);
LoweredScan lower(const FusedProgram& fused, const ScanLoop& scan);

}  // namespace moxie
