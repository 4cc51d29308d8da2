#include "compiler/codegen/cuda/cuda_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "compiler/codegen/cuda/code_size.h"
#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/codegen/cuda/wide_access.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

using cuda_text::ArrayShape;
using cuda_text::KernelShape;

/// What a thrift stands for. Arrays of one thread may take so many four-byte registers: with the rest of a kernel at
/// most the 255 that a thread has.
struct Economy {
  std::int64_t array_registers;
  int unroll;
};
constexpr Economy kEconomies[] = {{160, 0}, {64, 4}, {16, 1}};
/// A thread with more registers than this in arrays comes in smaller blocks, so that several fit a multiprocessor.
constexpr std::int64_t kManyRegisters = 48;
/// So few elements are spread over more multiprocessors by small blocks.
constexpr std::int64_t kFewElements = 4096;
constexpr int kReducingLanes = 128, kMapThreads = 256, kBlockTeam = 256;
/// Of a block, that 64 registers each are left to.
constexpr int kMostThreads = 1024;
/// Beyond so many rounds, a block shares a reduction out instead of a warp.
constexpr std::int64_t kMostRoundsOfWarp = 1024;
/// Multiply-adds that a multiprocessor does while it moves a byte: 128 a clock against 20 bytes on an H200. Other GPUs
/// move less.
constexpr double kOperationsPerByte = 6;
/// Scratch of one lane beyond which a block works on one element of the vector loop at a time.
constexpr std::int64_t kLaneScratch = 1024;
/// Unrolled code beyond this no longer fits an instruction cache, and compilers take seconds over it.
constexpr std::int64_t kMostInstructions = 5000;
/// Blocks per multiprocessor that search terms.
constexpr int kSearchingBlocks = 2;
/// Blocks per multiprocessor that fill it, where each leaves sums of its own: with few registers, and with many. On an
/// H200 two blocks of few registers moved a quarter of the bytes that its memory can.
constexpr int kReducingBlocks = 4, kLargeReducingBlocks = 2;

/// Assumed for the extents of scratch that are not known when compiling: those of matrices and their rows.
constexpr std::int64_t kUnknownExtent = 256;

std::int64_t element_bytes(DType dtype) { return bytes_of(dtype); }

bool has_known_size(const ArrayDecl& array) { return std::ranges::all_of(array.extents, &Affine::is_constant); }

/// The number of elements; each extent that is not known counts as kUnknownExtent.
std::int64_t extents_product(const ArrayDecl& array) {
  std::int64_t product = 1;
  for (const Affine& extent : array.extents) product *= extent.is_constant() ? extent.constant() : kUnknownExtent;
  return product;
}

class ScheduleChooser {
 public:
  ScheduleChooser(const LoweredKernel& kernel, const GpuLimits& limits, const CudaPreference& preference, Thrift thrift)
      : kernel_(kernel),
        limits_(limits),
        preference_(preference),
        economy_(kEconomies[static_cast<int>(thrift)]),
        shape_(cuda_text::kernel_shape(kernel)) {
    schedule_.unroll = economy_.unroll;
  }

  CudaSchedule run() {
    choose_threads();
    choose_blocks();
    shared_left_ = limits_.block_shared_bytes - combination_bytes();
    place_arrays();
    stage_tables();
    return std::move(schedule_);
  }

 private:
  const LoopProgram& program() const { return kernel_.program; }

  void choose_threads() {
    if (cuda_text::searches_terms(kernel_)) return choose_search();
    if (shape_.lanes_reduce)
      return choose("lanes combined", wanted_threads(kReducingLanes), 1, "sums along the vector loop");
    if (!shape_.vector_loop && kernel_.team > 1 && !shape_.reductions.empty()) return choose_team(kBlockTeam);
    if (!shape_.vector_loop || shared_bytes_per_lane() > kLaneScratch) return choose_block_per_element();
    if (shape_.sample_loop) return choose_rows_of_samples();
    if (const int team = wanted_team(); team > 1) return choose_team(team);
    choose_thread_per_element();
  }

  /// A warp takes as long to look at all terms as for its own where there are a thousand warps, by estimate for an
  /// H200.
  void choose_search() {
    schedule_.mapping = CudaMapping::search;
    choose("rows per warp", kWarp, wanted_threads(4 * kWarp) / kWarp, "all terms are searched for those of the rows");
  }

  void choose_block_per_element() {
    schedule_.mapping = CudaMapping::block;
    const int most = shape_.shared_rounds > 0 ? kMostThreads : 4 * kWarp;
    const int rows = shape_.shared_out.empty() ? 1 : wanted_threads(rows_for(kWarp, most));
    choose("block per element", 1, rows,
           shape_.vector_loop ? fmt::format("{} bytes of scratch per element", shared_bytes_per_lane())
                              : "no vector loop");
  }

  void choose_rows_of_samples() {
    if (shape_.has_partials) {
      const bool many = register_words() > kManyRegisters;
      const int threads = wanted_threads(kWarp * (many ? 4 : 8));
      return choose("rows of samples", kWarp, threads / kWarp,
                    many ? fmt::format("{} registers of sums per thread", register_words()) : "sums over samples");
    }
    std::string reason = choose_width();
    const auto elements = cuda_text::constant_elements(kernel_);
    const std::int64_t lanes =
        schedule_.width > 1
            ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(*elements / schedule_.width)))
            : kWarp;
    schedule_.lanes = static_cast<int>(std::min<std::int64_t>(lanes, kWarp));
    choose("rows of samples", schedule_.lanes, wanted_threads(kMapThreads) / schedule_.lanes,
           "elements of samples; " + std::move(reason));
  }

  /// Wide accesses keep more bytes under way, which helps where memory is what a kernel waits for.
  std::string choose_width() {
    const int widest = cuda_text::widest_access(kernel_, shape_);
    if (widest == 1) return "no neighbours to be loaded at once";
    const auto [operations, bytes] = cuda_text::element_cost(kernel_, shape_);
    const bool waits = operations < kOperationsPerByte * bytes;
    schedule_.width = preference_.width > 0 ? std::min(preference_.width, widest) : waits ? widest : 1;
    return fmt::format("{} multiply-adds for {} bytes", operations, bytes);
  }

  /// Threads for each element: several, where a long reduction reads its tensors along their fastest axis.
  int wanted_team() const {
    if (shape_.reductions.empty()) return 1;
    const bool shares_chunks = kernel_.chunks && kernel_.team > 0;
    if (preference_.team > (shares_chunks ? 1 : 0)) return preference_.team;
    if (kernel_.team > 0) return kernel_.team;
    int balance = 0;
    for (const auto& [loop, reduction] : shape_.reductions)
      balance += cuda_text::contiguous_loads(program(), *reduction.innermost, shape_.vector_loop);
    return balance <= 0 ? 1 : longest_reduction() > kMostRoundsOfWarp ? kBlockTeam : kWarp;
  }

  std::int64_t longest_reduction() const {
    std::int64_t longest = 0;
    for (const auto& [loop, reduction] : shape_.reductions)
      longest = std::max(longest, cuda_text::constant_rounds(reduction).value_or(INT64_MAX));
    return longest;
  }

  void choose_team(int team) {
    schedule_.mapping = CudaMapping::team;
    const int lanes = std::max(team, kWarp);
    const std::int64_t rounds = longest_reduction();
    choose(lanes == kWarp ? "warp per element" : "block per element", lanes,
           lanes == kWarp ? wanted_threads(kMapThreads) / kWarp : 1,
           rounds == INT64_MAX ? "reductions of unknown length along the fastest axis"
                               : fmt::format("reductions of {} rounds", rounds));
  }

  void choose_thread_per_element() {
    const bool shares = !shape_.shared_out.empty();
    schedule_.spread = shares && std::ranges::all_of(shape_.arrays, &ArrayShape::per_thread) && !shape_.has_partials;
    const auto elements = cuda_text::constant_elements(kernel_);
    const bool many = program().arrays.empty() && (!elements || *elements > kFewElements);
    if (shares)
      choose("thread per element", kWarp, rows_for(1, 8), "independent rounds go to rows");
    else
      choose("thread per element", many ? wanted_threads(kMapThreads) : kWarp, 1,
             many ? "many elements" : "few elements, or scratch for each");
  }

  int wanted_threads(int otherwise) const { return preference_.threads > 0 ? preference_.threads : otherwise; }

  /// Where blocks have no sums to leave, more of them than run at once even out what each takes.
  void choose_blocks() {
    const int full = std::max(1, limits_.threads / threads());
    if (schedule_.mapping == CudaMapping::search) {
      schedule_.blocks = preference_.blocks > 0 ? preference_.blocks : kSearchingBlocks;
      return;
    }
    const bool keeps_sums = shape_.has_partials && schedule_.mapping != CudaMapping::team;
    const int reducing = register_words() > kManyRegisters ? kLargeReducingBlocks : kReducingBlocks;
    schedule_.blocks = preference_.blocks > 0 ? preference_.blocks : keeps_sums ? reducing : full;
    const bool loops = schedule_.mapping == CudaMapping::team ||
                       (schedule_.mapping == CudaMapping::thread && !shape_.lanes_reduce && !shape_.sample_loop &&
                        shape_.shared_out.empty() && program().arrays.empty());
    if (!loops) return;
    const auto elements = cuda_text::constant_elements(kernel_);
    const std::int64_t at_once =
        std::int64_t{schedule_.blocks} * limits_.multiprocessors * elements_per_block(schedule_);
    schedule_.persistent = !elements || *elements > at_once;
  }

  void choose(std::string name, int lanes, int rows, std::string reason) {
    schedule_.name = std::move(name);
    schedule_.lanes = lanes;
    schedule_.rows = rows;
    schedule_.reason = std::move(reason);
  }

  int rows_for(int least, int most) const {
    const std::int64_t rounds = shape_.shared_rounds > 0 ? shape_.shared_rounds : most;
    return std::clamp(static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(rounds, most)))),
                      least, most);
  }

  std::int64_t shared_bytes_per_lane() const {
    std::int64_t bytes = 0;
    for (std::size_t a = 0; a < shape_.arrays.size(); ++a) {
      if (!shape_.arrays[a].per_thread)
        bytes += extents_product(program().arrays[a]) * element_bytes(program().arrays[a].dtype);
    }
    return bytes;
  }

  std::int64_t words(std::size_t a) const {
    return shape_.arrays[a].elements * element_bytes(program().arrays[a].dtype) / 4;
  }

  bool may_be_registers(std::size_t a) const {
    return has_known_size(program().arrays[a]) && shape_.arrays[a].per_thread && shape_.arrays[a].known_subscripts &&
           words(a) <= economy_.array_registers;
  }

  std::int64_t register_words() const {
    std::int64_t sum = 0;
    for (std::size_t a = 0; a < shape_.arrays.size(); ++a) sum += may_be_registers(a) ? words(a) : 0;
    return sum;
  }

  int threads() const { return schedule_.lanes * schedule_.rows; }

  /// Scratch of combine_rows() and combine_lanes(), in both types.
  std::int64_t combination_bytes() const {
    if (shape_.lanes_reduce) return schedule_.lanes / kWarp * 12;
    return shape_.combines_rows() && schedule_.rows > 1 ? 2 * threads() * 12 : 0;
  }

  /// Registers for the smallest arrays first; then shared memory; then device memory.
  void place_arrays() {
    schedule_.arrays.resize(shape_.arrays.size(), ArrayPlace::workspace);
    std::vector<std::size_t> order(shape_.arrays.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t a) { return words(a); });
    std::int64_t registers_left = economy_.array_registers;
    for (const std::size_t a : order) {
      if (!may_be_registers(a) || words(a) > registers_left) continue;
      registers_left -= words(a);
      schedule_.arrays[a] = ArrayPlace::registers;
    }
    cuda_text::limit_code(program(), shape_, kMostInstructions, schedule_.arrays);
    for (const std::size_t a : order) {
      if (schedule_.arrays[a] != ArrayPlace::registers && has_known_size(program().arrays[a])) place_in_memory(a);
    }
    // In the order of the arrays, in which the kernel's text declares them.
    for (std::size_t a = 0; a < order.size(); ++a) {
      const ArrayDecl& array = program().arrays[a];
      if (!has_known_size(array)) schedule_.workspace.blocks.push_back({bytes_of_element(a), array.extents});
    }
  }

  /// One for each thread of the block or for each lane, or one for all.
  std::int64_t bytes_of_element(std::size_t a) const {
    const ArrayDecl& array = program().arrays[a];
    const int copies = shape_.arrays[a].per_thread ? threads() : array.varying ? schedule_.lanes : 1;
    return element_bytes(array.dtype) * copies;
  }

  void place_in_memory(std::size_t a) {
    const std::int64_t bytes = extents_product(program().arrays[a]) * bytes_of_element(a);
    if (bytes <= shared_left_) {
      shared_left_ -= bytes;
      schedule_.arrays[a] = ArrayPlace::shared;
    } else {
      schedule_.workspace.fixed_bytes += (bytes + 15) / 16 * 16;
    }
  }

  /// Tables with a place for each lane that the loop over samples reads again and again.
  void stage_tables() {
    if (!shape_.sample_loop || schedule_.mapping != CudaMapping::thread || !shape_.vector_loop || schedule_.width > 1)
      return;
    for (const BufferId b : tables()) {
      const std::int64_t bytes = schedule_.lanes * table_places(b) * element_bytes(program().buffers[b].dtype);
      if (bytes > shared_left_) continue;
      shared_left_ -= bytes;
      schedule_.staged.push_back(b);
    }
  }

  /// Buffers that are only read, by subscripts that are the vector index on one axis, everywhere the same, and indices
  /// of constant extent on the others.
  std::vector<BufferId> tables() const {
    std::vector<bool> table(program().buffers.size(), false), other(program().buffers.size(), false);
    const Symbol vector = shape_.vector_loop->variable;
    cuda_text::visit_statements(shape_.sample_loop->body, [&](const Statement& s) {
      const auto* let = std::get_if<stmt::Let>(&s);
      const auto* load = let ? std::get_if<op::Load>(&program().values.at(let->id).operation) : nullptr;
      if (!load) return;
      const bool is_table = is_table_read(*load) &&
                            load->subscripts[cuda_text::lane_axis(program(), load->buffer, vector)] == Affine(vector);
      (is_table ? table : other)[load->buffer] = true;
    });
    std::vector<BufferId> result;
    for (BufferId b = 0; b < table.size(); ++b) {
      if (table[b] && !other[b] && !program().buffers[b].written) result.push_back(b);
    }
    return result;
  }

  /// Elements of a table for one lane.
  std::int64_t table_places(BufferId id) const {
    const std::size_t lanes = cuda_text::lane_axis(program(), id, shape_.vector_loop->variable);
    std::int64_t places = 1;
    for (std::size_t axis = 0; axis < program().buffers[id].shape.size(); ++axis) {
      if (axis != lanes) places *= program().buffers[id].shape[axis].constant();
    }
    return places;
  }

  bool is_table_read(const op::Load& load) const {
    const Affine lane(shape_.vector_loop->variable);
    bool inner = false;
    int lanes = 0;
    for (std::size_t axis = 0; axis < load.subscripts.size(); ++axis) {
      const Affine& subscript = load.subscripts[axis];
      if (subscript.mentions(shape_.sample_loop->variable)) return false;
      if (subscript == lane)
        ++lanes;
      else if (subscript.mentions(shape_.vector_loop->variable) ||
               !program().buffers[load.buffer].shape[axis].is_constant())
        return false;
      inner = inner || (subscript != lane && !subscript.is_constant());
    }
    return lanes == 1 && inner && !load.guard;
  }

  const LoweredKernel& kernel_;
  GpuLimits limits_;
  CudaPreference preference_;
  Economy economy_;
  KernelShape shape_;
  CudaSchedule schedule_;
  std::int64_t shared_left_ = 0;
};

std::int64_t extent_of(const Range& range, const DimValues& dims) {
  const auto value = [&](Symbol symbol) { return dims.at(symbol.name()); };
  std::optional<std::int64_t> low, high;
  for (const Bound& b : range.lows)
    low = std::max(low.value_or(INT64_MIN), ceil_div(b.value.evaluate(value), b.divisor));
  for (const Bound& b : range.highs)
    high = std::min(high.value_or(INT64_MAX), floor_div(b.value.evaluate(value), b.divisor));
  return low && high ? std::max<std::int64_t>(0, *high - *low + 1) : 0;
}

}  // namespace

CudaSchedule choose_cuda_schedule(const LoweredKernel& kernel, const GpuLimits& limits,
                                  const CudaPreference& preference, bool wide_index, Thrift thrift) {
  CudaSchedule schedule = ScheduleChooser(for_threads(kernel), limits, preference, thrift).run();
  schedule.wide_index = wide_index;
  return schedule;
}

int rounds_at_once(const LoweredKernel& kernel, const CudaSchedule& schedule) {
  return kernel.chunks->over_lanes || schedule.mapping == CudaMapping::team ? schedule.lanes : schedule.rows;
}

int elements_per_block(const CudaSchedule& schedule) {
  switch (schedule.mapping) {
    case CudaMapping::thread:
      return schedule.lanes * schedule.width;
    case CudaMapping::team:
      return schedule.rows;
    case CudaMapping::block:
    case CudaMapping::search:
      return 1;
  }
  throw InternalError("unknown mapping of a kernel to threads");
}

CudaGrid choose_cuda_grid(const LoweredKernel& kernel, const CudaSchedule& schedule, const GpuLimits& limits,
                          const DimValues& dims) {
  CudaGrid grid;
  const std::int64_t fitting = std::int64_t{schedule.blocks} * limits.multiprocessors;
  const LoweredKernel threads = for_threads(kernel);
  std::int64_t elements = 1;
  for (const Range& range : cuda_text::element_ranges(threads))
    elements = checked_mul(elements, extent_of(range, dims));
  grid.tiles = ceil_div(elements, elements_per_block(schedule));
  if (schedule.persistent) grid.tiles = std::min(grid.tiles, fitting);
  const std::int64_t wanted = std::max<std::int64_t>(1, fitting / std::max<std::int64_t>(grid.tiles, 1));
  if (kernel.chunks) {
    std::int64_t rounds = 1;
    for (const Range& range : cuda_text::chunked_ranges(threads)) rounds = checked_mul(rounds, extent_of(range, dims));
    grid.chunks = std::clamp<std::int64_t>(ceil_div(rounds, rounds_at_once(kernel, schedule)), 1, wanted);
  } else if (schedule.spread) {
    const std::int64_t rounds = cuda_text::kernel_shape(threads).shared_rounds;
    grid.chunks = std::clamp<std::int64_t>(ceil_div(rounds, schedule.rows), 1, wanted);
  }
  return grid;
}

std::string print(const CudaSchedule& schedule) {
  constexpr const char* kPlaces[] = {"registers", "shared memory", "device memory"};
  std::string text =
      fmt::format("{}: {} lanes x {} rows; {}", schedule.name, schedule.lanes, schedule.rows, schedule.reason);
  for (std::size_t a = 0; a < schedule.arrays.size(); ++a)
    text += fmt::format("; scratch {} in {}", a, kPlaces[static_cast<int>(schedule.arrays[a])]);
  if (schedule.width > 1) text += fmt::format("; {} neighbours a thread", schedule.width);
  if (schedule.persistent)
    text += fmt::format("; at most {} blocks per multiprocessor go through the elements", schedule.blocks);
  if (schedule.unroll > 0) text += fmt::format("; loops unrolled by {}", schedule.unroll);
  if (!schedule.staged.empty()) text += fmt::format("; {} tables staged in shared memory", schedule.staged.size());
  return text;
}

}  // namespace moxie
