#include "compiler/codegen/cuda/cuda_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

using cuda_text::ArrayShape;
using cuda_text::KernelShape;

constexpr int kWarp = 32;
/// What a thrift stands for. Arrays of one thread may take so many four-byte registers: with the rest of a kernel at most the 255 that a thread has.
struct Economy {
  std::int64_t array_registers;
  int unroll;
};
constexpr Economy kEconomies[] = {{160, 0}, {64, 4}, {16, 1}};
/// A thread with more registers than this in arrays comes in smaller blocks, so that several fit a multiprocessor.
constexpr std::int64_t kManyRegisters = 48;
constexpr int kReducingLanes = 128;
/// Scratch of one lane beyond which a block works on one element of the vector loop at a time.
constexpr std::int64_t kLaneScratch = 1024;

std::int64_t element_bytes(DType dtype) { return dtype == DType::f32 ? 4 : 8; }

std::int64_t extents_product(const ArrayDecl& array) {
  return std::accumulate(array.extents.begin(), array.extents.end(), std::int64_t{1}, std::multiplies<>());
}

class ScheduleChooser {
 public:
  ScheduleChooser(const LoweredKernel& kernel, const GpuLimits& limits, Thrift thrift)
      : kernel_(kernel), limits_(limits), economy_(kEconomies[static_cast<int>(thrift)]), shape_(cuda_text::kernel_shape(kernel)) {
    schedule_.unroll = economy_.unroll;
  }

  CudaSchedule run() {
    choose_threads();
    shared_left_ = limits_.block_shared_bytes - combination_bytes();
    place_arrays();
    stage_tables();
    return std::move(schedule_);
  }

 private:
  const LoopProgram& program() const { return kernel_.program; }

  void choose_threads() {
    if (shape_.lanes_reduce) return choose("lanes combined", kReducingLanes, 1, "sums along the vector loop");
    schedule_.matrix_per_block = !shape_.vector_loop || shared_bytes_per_lane() > kLaneScratch;
    if (schedule_.matrix_per_block) {
      const int rows = shape_.shared_out.empty() ? 1 : rows_for(kWarp, 4 * kWarp);
      return choose("block per element", 1, rows,
                    shape_.vector_loop ? fmt::format("{} bytes of scratch per element", shared_bytes_per_lane()) : "no vector loop");
    }
    if (shape_.sample_loop) {
      const bool many = register_words() > kManyRegisters;
      return choose("rows of samples", kWarp, many ? 4 : 8, many ? fmt::format("{} registers of sums per thread", register_words()) : "sums over samples or maps");
    }
    schedule_.spread = !shape_.shared_out.empty() && std::ranges::all_of(shape_.arrays, &ArrayShape::per_thread) && !shape_.has_partials;
    choose("lanes", kWarp, shape_.shared_out.empty() ? 1 : rows_for(1, 8), shape_.shared_out.empty() ? "one thread per element" : "independent rounds go to rows");
  }

  void choose(std::string name, int lanes, int rows, std::string reason) {
    schedule_.name = std::move(name);
    schedule_.lanes = lanes;
    schedule_.rows = rows;
    schedule_.reason = std::move(reason);
  }

  int rows_for(int least, int most) const {
    const std::int64_t rounds = shape_.shared_rounds > 0 ? shape_.shared_rounds : most;
    return std::clamp(static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(rounds, most)))), least, most);
  }

  std::int64_t shared_bytes_per_lane() const {
    std::int64_t bytes = 0;
    for (std::size_t a = 0; a < shape_.arrays.size(); ++a) {
      if (!shape_.arrays[a].per_thread) bytes += extents_product(program().arrays[a]) * element_bytes(program().arrays[a].dtype);
    }
    return bytes;
  }

  std::int64_t words(std::size_t a) const { return shape_.arrays[a].elements * element_bytes(program().arrays[a].dtype) / 4; }

  bool may_be_registers(std::size_t a) const {
    return shape_.arrays[a].per_thread && shape_.arrays[a].known_subscripts && words(a) <= economy_.array_registers;
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
      if (may_be_registers(a) && words(a) <= registers_left) {
        registers_left -= words(a);
        schedule_.arrays[a] = ArrayPlace::registers;
        continue;
      }
      const std::int64_t bytes = array_bytes(a);
      if (bytes <= shared_left_) {
        shared_left_ -= bytes;
        schedule_.arrays[a] = ArrayPlace::shared;
      } else {
        schedule_.workspace_bytes_per_block += (bytes + 15) / 16 * 16;
      }
    }
  }

  std::int64_t array_bytes(std::size_t a) const {
    const ArrayDecl& array = program().arrays[a];
    return extents_product(array) * element_bytes(array.dtype) * (shape_.arrays[a].per_thread ? threads() : array.varying ? schedule_.lanes : 1);
  }

  /// Tables with a place for each lane that the loop over samples reads again and again.
  void stage_tables() {
    if (!shape_.sample_loop || schedule_.matrix_per_block || !shape_.vector_loop) return;
    for (const BufferId b : tables()) {
      const std::int64_t bytes = schedule_.lanes * table_places(b) * element_bytes(program().buffers[b].dtype);
      if (bytes > shared_left_) continue;
      shared_left_ -= bytes;
      schedule_.staged.push_back(b);
    }
  }

  /// Buffers that are only read, by subscripts that are the vector index on one axis and indices of constant extent on the others.
  std::vector<BufferId> tables() const {
    std::vector<bool> table(program().buffers.size(), false), other(program().buffers.size(), false);
    cuda_text::visit_statements(shape_.sample_loop->body, [&](const Statement& s) {
      const auto* let = std::get_if<stmt::Let>(&s);
      const auto* load = let ? std::get_if<op::Load>(&program().values.at(let->id).operation) : nullptr;
      if (load) (is_table_read(*load) ? table : other)[load->buffer] = true;
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
      if (subscript == lane) ++lanes;
      else if (subscript.mentions(shape_.vector_loop->variable) || !program().buffers[load.buffer].shape[axis].is_constant()) return false;
      inner = inner || (subscript != lane && !subscript.is_constant());
    }
    return lanes == 1 && inner && !load.guard;
  }

  const LoweredKernel& kernel_;
  GpuLimits limits_;
  Economy economy_;
  KernelShape shape_;
  CudaSchedule schedule_;
  std::int64_t shared_left_ = 0;
};

std::int64_t extent_of(const Range& range, const DimValues& dims) {
  const auto value = [&](Symbol symbol) { return dims.at(symbol.name()); };
  std::optional<std::int64_t> low, high;
  for (const Bound& b : range.lows) low = std::max(low.value_or(INT64_MIN), ceil_div(b.value.evaluate(value), b.divisor));
  for (const Bound& b : range.highs) high = std::min(high.value_or(INT64_MAX), floor_div(b.value.evaluate(value), b.divisor));
  return low && high ? std::max<std::int64_t>(0, *high - *low + 1) : 0;
}

}  // namespace

CudaSchedule choose_cuda_schedule(const LoweredKernel& kernel, const GpuLimits& limits, bool wide_index, Thrift thrift) {
  CudaSchedule schedule = ScheduleChooser(kernel, limits, thrift).run();
  schedule.wide_index = wide_index;
  return schedule;
}

CudaGrid choose_cuda_grid(const LoweredKernel& kernel, const CudaSchedule& schedule, const GpuLimits& limits, const DimValues& dims) {
  CudaGrid grid;
  if (kernel.tiles) grid.tiles = (extent_of(kernel.tiles->range, dims) + schedule.lanes - 1) / schedule.lanes;
  const std::int64_t wanted = (kBlocksPerMultiprocessor * limits.multiprocessors + std::max<std::int64_t>(grid.tiles, 1) - 1) / std::max<std::int64_t>(grid.tiles, 1);
  if (kernel.chunks) {
    const std::int64_t rows = kernel.chunks->over_lanes ? schedule.lanes : schedule.rows;
    grid.chunks = std::clamp<std::int64_t>((extent_of(kernel.chunks->range, dims) + rows - 1) / rows, 1, wanted);
  } else if (schedule.spread) {
    const std::int64_t rounds = cuda_text::kernel_shape(kernel).shared_rounds;
    grid.chunks = std::clamp<std::int64_t>((rounds + schedule.rows - 1) / schedule.rows, 1, wanted);
  }
  return grid;
}

std::string print(const CudaSchedule& schedule) {
  constexpr const char* kPlaces[] = {"registers", "shared memory", "device memory"};
  std::string text = fmt::format("{}: {} lanes x {} rows; {}", schedule.name, schedule.lanes, schedule.rows, schedule.reason);
  for (std::size_t a = 0; a < schedule.arrays.size(); ++a) text += fmt::format("; scratch {} in {}", a, kPlaces[static_cast<int>(schedule.arrays[a])]);
  if (schedule.unroll > 0) text += fmt::format("; loops unrolled by {}", schedule.unroll);
  if (!schedule.staged.empty()) text += fmt::format("; {} tables staged in shared memory", schedule.staged.size());
  return text;
}

}  // namespace moxie
