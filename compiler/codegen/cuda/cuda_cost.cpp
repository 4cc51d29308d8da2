#include "compiler/codegen/cuda/cuda_cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/expression/functions.h"
#include "compiler/schedule/loop_tree.h"

namespace moxie {
namespace {

using cuda_text::KernelShape;

// Figures of an H100 or H200, from data sheets and of 169 kernels on an H200 (benchmarks/results/kernels-nvidia-h200).
// Those of other GPUs relate to each other much alike.
constexpr double kClock = 1.7e9;
constexpr double kInstructions = 4;  // of warps, issued by a multiprocessor in a cycle
// Warps that hide what the others of a multiprocessor wait for: results of arithmetic, and memory.
constexpr double kWarpsOfArithmetic = 12, kWarpsOfMemory = 24;
constexpr double kBytesPerSecond = 3.5e12;
constexpr double kMemoryLatency = 0.7e-6, kCacheLatency = 0.3e-6;  // seconds; of the cache of all multiprocessors
constexpr double kCacheBytes = 40e6;                               // of its 50 or 60 MB, what earlier kernels left
constexpr double kLinesUnderWay = 2;  // cache lines in flight per warp, at least: compilers unroll loops
constexpr double kLaunchSeconds = 2e-6;
constexpr double kLineBytes = 128;  // that a multiprocessor's cache gives in a cycle
constexpr double kCombining = 12;   // instructions of a warp that combines a sum of its lanes; in a block it waits, too
constexpr double kAddressing = 2;   // instructions that make an address
// Rows of 256 bytes that lie apart, read by one team each, took three times as long as all of a tensor in its order.
constexpr double kPageBytes = 1024, kMostScattered = 3;
constexpr double kLinesOfWorkspace = 16;  // while scratch in device memory is read or stored, which wait for each other
constexpr double kGatherLines = 16;       // cache lines that a warp touches where subscripts are read from tensors

/// How the threads of a warp stand to a statement.
struct Sharing {
  double threads = 1;                 // that carry out what the program does once
  std::optional<Symbol> lanes;        // neighbours have neighbouring values of it
  double rounds_of_lanes = HUGE_VAL;  // after so many neighbours the next loop around counts on
  bool row = false;                   // a team reads one contiguous row
};

class CostReader {
 public:
  CostReader(const LoweredKernel& kernel, const GpuLimits& limits, const DimValues& extents)
      : kernel_(for_threads(kernel)),
        limits_(limits),
        extents_(at_first_step(kernel_, extents)),
        schedule_(choose_cuda_schedule(kernel, limits)),
        shape_(cuda_text::kernel_shape(kernel_)),
        tree_(kernel_, extents_, {}, 1) {
    const CudaGrid grid = choose_cuda_grid(kernel, schedule_, limits, extents_);
    warps_ = static_cast<double>(grid.tiles * grid.chunks) * std::ceil(threads_of_block() / kWarp);
    launches_ = kernel.chunks && grid.chunks > 1 ? 2 : 1;
  }

  double seconds() {
    const bool whole = shape_.elements.loops.empty() && !shape_.vector_loop;
    visit(kernel_.program.body, 1, whole ? Sharing{threads_of_block(), {}} : Sharing{});
    const double multiprocessors = limits_.multiprocessors;
    const auto cycles_of = [&](double work, double hiding) {
      return work / (multiprocessors * std::min(1.0, warps_ / (multiprocessors * hiding)));
    };
    const double cycles = std::max(cycles_of(instructions_ / kInstructions, kWarpsOfArithmetic),
                                   cycles_of(lines_, kWarpsOfMemory * kLinesUnderWay / lines_under_way()));
    return launches_ * kLaunchSeconds + std::max(cycles / kClock, memory_seconds());
  }

 private:
  /// Of the accesses of a block: those to a buffer that lie a constant apart share an address.
  using Places = std::vector<std::pair<BufferId, std::vector<Affine>>>;

  double threads_of_block() const { return static_cast<double>(schedule_.lanes) * schedule_.rows; }
  bool is_shared(const stmt::For& loop) const {
    return shape_.shared_out.contains(&loop) ||
           (schedule_.mapping == CudaMapping::team && shape_.reductions.contains(&loop));
  }

  void visit(const Block& block, double executions, const Sharing& sharing) {
    const double before = lines_;
    double inside_loops = 0;
    Places places;
    for (const Statement& statement : block) {
      const double before_statement = lines_;
      if (const auto* loop = std::get_if<stmt::For>(&statement)) {
        visit(loop->body, tree_.loops()[tree_.index_of(*loop)].body_executions(), inside(*loop, sharing));
        if (schedule_.mapping == CudaMapping::team) count_combining(*loop, executions);
        inside_loops += lines_ - before_statement;
      } else {
        count(statement, executions * sharing.threads / kWarp, sharing, places);
      }
    }
    const double own = lines_ - before - inside_loops, rounds = executions * sharing.threads / kWarp;
    if (own > 0 && rounds > 0) lines_of_rounds_ += own * own / rounds;
  }

  Sharing inside(const stmt::For& loop, const Sharing& around) const {
    const double rounds = tree_.loops()[tree_.index_of(loop)].trips;
    const auto shared_by = [&](double threads, double all_rounds, Symbol lanes, double inner_rounds) {
      return Sharing{std::ceil(all_rounds / threads) * threads / std::max(all_rounds, 1.0), lanes, inner_rounds};
    };
    const bool team = schedule_.mapping == CudaMapping::team;
    if (&loop == shape_.vector_loop && schedule_.mapping == CudaMapping::thread) {
      Sharing sharing = shape_.elements.loops.empty() ? shared_by(kWarp, rounds, loop.variable, HUGE_VAL)
                                                      : Sharing{1, loop.variable, rounds};
      sharing.threads *= schedule_.rows;
      return sharing;
    }
    if (&loop == shape_.vector_loop) return {team ? static_cast<double>(schedule_.lanes) : threads_of_block(), {}};
    if (!is_shared(loop)) return around;
    if (schedule_.mapping == CudaMapping::thread) {
      Sharing sharing = around;
      sharing.threads *= std::ceil(rounds / schedule_.rows) / std::max(rounds, 1.0);
      return sharing;
    }
    if (!team) return shared_by(schedule_.rows, rounds, loop.variable, HUGE_VAL);
    const auto reduction = shape_.reductions.find(&loop);
    if (reduction == shape_.reductions.end()) return shared_by(schedule_.lanes, rounds, loop.variable, HUGE_VAL);
    const stmt::For& innermost = *reduction->second.innermost;
    double all = 1;
    for (const Affine& counted : reduction->second.counted.rounds) all *= tree_.value(counted);
    if (reduction->second.counted.loops.empty()) all = rounds;
    Sharing sharing =
        shared_by(schedule_.lanes, all, innermost.variable, tree_.loops()[tree_.index_of(innermost)].trips);
    sharing.row = reduction->second.counted.loops.size() <= 1;
    return sharing;
  }

  void count_combining(const stmt::For& loop, double executions) {
    const auto reduction = shape_.reductions.find(&loop);
    if (reduction == shape_.reductions.end()) return;
    const double warps = static_cast<double>(schedule_.lanes) / kWarp;
    instructions_ +=
        executions * static_cast<double>(reduction->second.sums.size()) * warps * kCombining * (warps > 1 ? 3 : 1);
  }

  void count(const Statement& statement, double warps, const Sharing& sharing, Places& places) {
    if (std::holds_alternative<stmt::SetVar>(statement)) return;  // a register
    if (const auto* store = std::get_if<stmt::Store>(&statement))
      return access(store->buffer, store->subscripts, warps, sharing, places);
    if (const auto* store = std::get_if<stmt::StoreArray>(&statement)) return access_scratch(store->array, warps);
    const auto* let = std::get_if<stmt::Let>(&statement);
    if (!let) return void(instructions_ += warps);
    const Value& value = kernel_.program.values.at(let->id);
    if (std::holds_alternative<op::ReadVar>(value.operation)) return;
    if (const auto* load = std::get_if<op::Load>(&value.operation))
      return access(load->buffer, load->subscripts, warps, sharing, places);
    if (const auto* load = std::get_if<op::LoadArray>(&value.operation)) return access_scratch(load->array, warps);
    const auto* call = std::get_if<op::Call>(&value.operation);
    instructions_ += warps * (call ? std::max(1, call->function->cost) * (value.type == ValueType::f64 ? 2 : 1) : 1);
  }

  void access_scratch(ArrayId id, double warps) {
    const ArrayPlace place = schedule_.arrays[id];
    if (place == ArrayPlace::registers) return;
    instructions_ += (1 + kAddressing) * warps;
    lines_ += (place == ArrayPlace::workspace ? kLinesOfWorkspace : 1) * warps;
  }

  static std::vector<Affine> without_constants(std::vector<Affine> subscripts) {
    for (Affine& subscript : subscripts) subscript = subscript - Affine(subscript.constant());
    return subscripts;
  }

  void access(BufferId id, const std::vector<Affine>& subscripts, double warps, const Sharing& sharing,
              Places& places) {
    const BufferDecl& buffer = kernel_.program.buffers.at(id);
    instructions_ += warps;
    std::pair place(id, without_constants(subscripts));
    if (std::ranges::find(places, place) == places.end()) {
      instructions_ += kAddressing * warps;
      places.push_back(std::move(place));
    }
    if (std::ranges::any_of(subscripts, &Affine::mentions_value)) return void(lines_ += warps * kGatherLines);
    if (!sharing.lanes) return void(lines_ += warps);
    const double stride = stride_of(*sharing.lanes, buffer, subscripts);  // in elements
    const double bytes = static_cast<double>(bytes_of(buffer.dtype));
    const double lines = std::clamp(std::ceil(kWarp * std::abs(stride) * bytes / kLineBytes), 1.0, double{kWarp});
    const double jumps =
        sharing.rounds_of_lanes < kWarp && stride != 0 ? kWarp / std::max(sharing.rounds_of_lanes, 1.0) - 1 : 0;
    lines_ += warps * std::min(lines + jumps, double{kWarp});
    if (sharing.row && shape_.vector_loop && std::abs(stride) == 1) {
      const double piece = sharing.rounds_of_lanes * bytes;
      const double next = std::abs(stride_of(shape_.vector_loop->variable, buffer, subscripts)) * bytes;
      if (next > 2 * piece && piece < kPageBytes) scattered_[id] = std::min(kPageBytes / piece, kMostScattered);
    }
  }

  /// By how many elements what is accessed moves with a variable.
  double stride_of(Symbol variable, const BufferDecl& buffer, const std::vector<Affine>& subscripts) const {
    double stride = 0, step = 1;
    for (auto axis = buffer.layout.rbegin(); axis != buffer.layout.rend(); ++axis) {
      stride += step * static_cast<double>(subscripts[*axis].coefficient(variable));
      step *= tree_.value(buffer.shape[*axis]);
    }
    return stride;
  }

  /// Cache lines in flight per warp: the loads of one iteration do not wait for each other.
  double lines_under_way() const {
    return lines_ > 0 ? std::max(kLinesUnderWay, lines_of_rounds_ / lines_) : kLinesUnderWay;
  }

  /// What is under way arrives after a latency: few warps that load little do not keep the memory busy.
  double memory_seconds() const {
    double all = std::min(bytes(), lines_ * kLineBytes);
    for (const auto& [buffer, times] : scattered_) all += (times - 1) * bytes_of_tensor(buffer);
    const double resident = std::clamp(warps_, 1.0, 1.0 * limits_.multiprocessors * limits_.threads / kWarp);
    const double latency = all < kCacheBytes ? kCacheLatency : kMemoryLatency;
    return all / std::min(kBytesPerSecond, resident * lines_under_way() * kLineBytes / latency);
  }

  /// All tensors once.
  double bytes() const {
    double sum = 0;
    for (BufferId id = 0; id < kernel_.program.buffers.size(); ++id) sum += bytes_of_tensor(id);
    return sum;
  }

  double bytes_of_tensor(BufferId id) const {
    const BufferDecl& buffer = kernel_.program.buffers.at(id);
    double elements = 1;
    for (const Affine& extent : buffer.shape) elements *= tree_.value(extent);
    return elements * static_cast<double>(bytes_of(buffer.dtype));
  }

  LoweredKernel kernel_;
  const GpuLimits& limits_;
  DimValues extents_;
  CudaSchedule schedule_;
  KernelShape shape_;
  LoopTree tree_;
  double warps_ = 1, launches_ = 1;
  double instructions_ = 0, lines_ = 0;   // issued and touched by all warps together
  std::map<BufferId, double> scattered_;  // times as long as it takes to read the tensor in its order
  double lines_of_rounds_ = 0;            // of each line, those that a warp touches in the same round of its loop
};

/// The time of a kernel in which each warp searches all terms for those of its rows.
class SearchCost {
 public:
  SearchCost(const LoweredKernel& kernel, const GpuLimits& limits, const DimValues& extents)
      : kernel_(kernel), limits_(limits), extents_(at_first_step(kernel, extents)) {
    const CudaSchedule schedule = choose_cuda_schedule(kernel, limits);
    warps_ = static_cast<double>(choose_cuda_grid(kernel, schedule, limits, extents_).chunks) * schedule.rows;
    const double rows = trips(kernel.chunks->range);
    set(argument::kChunkHigh, std::ceil(rows / warps_));
    if (kernel.tiles) set(argument::kTileHigh, trips(kernel.tiles->range));
  }

  double seconds() {
    visit(kernel_.program.body, 1);
    const double issued = warps_ * instructions_ / (kInstructions * limits_.multiprocessors);
    return kLaunchSeconds + std::max(issued, waited_) / kClock;
  }

 private:
  /// Cycles until a warp has tested a group of terms, and until an element is read and stored again: not measured.
  static constexpr double kGroup = 300, kTerm = 700;
  static constexpr double kTermsOfGroup = 256, kInstructionsOfGroup = 80;

  void set(const char* argument, double value) { extents_[argument] = static_cast<std::int64_t>(value); }

  /// Iterations; unknown values count as 0.
  double trips(const Range& range) const {
    const auto value = [&](Symbol symbol) -> std::int64_t {
      const auto known = symbol.is_dim() ? extents_.find(symbol.name()) : extents_.end();
      return known == extents_.end() ? 0 : known->second;
    };
    double least = HUGE_VAL;
    for (const Bound& low : range.lows) {
      for (const Bound& high : range.highs) {
        const auto extent = static_cast<double>(floor_div(high.value.evaluate(value), high.divisor) -
                                                ceil_div(low.value.evaluate(value), low.divisor) + 1);
        least = std::min(least, extent);
      }
    }
    return std::max(least, 0.0);
  }

  void visit(const Block& block, double executions) {
    for (const Statement& statement : block) {
      if (const auto* loop = std::get_if<stmt::For>(&statement))
        visit(*loop, executions);
      else
        instructions_ += 2 * executions;
    }
  }

  void visit(const stmt::For& loop, double executions) {
    const double rounds = trips(loop.range);
    if (loop.vector) return visit(loop.body, executions * std::ceil(rounds / kWarp));
    const stmt::For* own = cuda_text::own_rows(loop);
    if (!own) return visit(loop.body, executions * rounds);
    const double groups = executions * std::ceil(rounds / kTermsOfGroup), terms = executions * rounds / warps_;
    instructions_ += groups * kInstructionsOfGroup;
    waited_ += groups * kGroup + terms * kTerm;
    visit(own->body, terms);
  }

  const LoweredKernel& kernel_;
  const GpuLimits& limits_;
  DimValues extents_;
  double warps_ = 1;
  double instructions_ = 0, waited_ = 0;  // of a warp
};

}  // namespace

double gpu_seconds(const LoweredKernel& kernel, const GpuLimits& limits, const DimValues& extents) {
  if (cuda_text::searches_terms(kernel)) return SearchCost(kernel, limits, extents).seconds();
  return CostReader(kernel, limits, extents).seconds();
}

}  // namespace moxie
