#include "runtime/cpu/cpu_executable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "compiler/expression/algebra_form.h"
#include "compiler/loop/overload.h"
#include "runtime/constant_steps.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/dense_algebra.h"
#include "runtime/cpu/flush_to_zero.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/matrix_products.h"
#include "runtime/cpu/ordered_sums.h"
#include "runtime/cpu/prepared_kernel.h"
#include "runtime/cpu/row_sorts.h"
#include "runtime/cpu/slice_places.h"
#include "runtime/host_memory.h"
#include "runtime/host_tensor.h"
#include "runtime/launch.h"
#include "runtime/log.h"
#include "runtime/tuner.h"

namespace moxie {
namespace {

/// What one run is given: the memory of inputs and outputs, and the random state.
using Addresses = std::function<void*(const std::string&)>;
struct Run {
  const Addresses& address;
  std::uint64_t seed, step;
};

std::vector<CpuKernel::Ptr> build_kernels(const Plan& plan, CpuResources& resources) {
  std::vector<LoopProgram> programs;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) programs.push_back(kernel->program);
  }
  return CpuKernel::build_all(programs, resources.machine, &resources.cache, &resources.overrides);
}

/// Of every step of the plan.
std::vector<std::int64_t> chunks_of(const Plan& plan, const DimValues& dims) {
  std::vector<std::int64_t> chunks;
  for (const PlanStep& step : plan.steps) {
    chunks.push_back(1);
    for (const LoweredKernel* kernel : kernels_of(step))
      chunks.back() = std::max(chunks.back(), choose_partition(*kernel, dims, 1).chunks);
  }
  return chunks;
}

Partition tuned_partition(const std::vector<Partition>& candidates, const Tuned& tuned) {
  const Partition& fastest = candidates.at(tuned.way);
  return {fastest.tiles, fastest.chunks, tuned.reason};
}

class CpuExecutable : public Executable {
 public:
  CpuExecutable(std::shared_ptr<const Plan> plan, DimValues dims, CpuResources& resources)
      : plan_(std::move(plan)),
        dims_(with_slice_dims(*plan_, std::move(dims))),
        parts_(slice_parts(*plan_, dims_)),
        constant_(constant_steps(*plan_)),
        memory_(plan_memory(*plan_, dims_, chunks_of(*plan_, dims_))),
        resources_(resources),
        arena_(allocate_zeros(static_cast<std::size_t>(memory_.bytes))) {
    const std::vector<CpuKernel::Ptr> compiled =
        resources_.kernels.find_or_make(plan_, [&] { return build_kernels(*plan_, resources_); });
    std::int64_t scratch = 0;
    std::size_t next = 0;
    for (std::size_t k = 0; k < plan_->steps.size(); ++k) {
      for (const AlgebraCall* call : algebra_calls_of(plan_->steps[k])) {
        if (!sorts_row(call->definition.body->algebra)) prepare_blas();
      }
      for (const MatrixProduct* product : products_of(plan_->steps[k]))
        prepare_product(product->definition.dtype, product_call(*plan_, *product, dims_));
      for (const LoweredKernel* kernel : kernels_of(plan_->steps[k])) {
        const PreparedKernel& prepared = kernels_.emplace(kernel, prepare(k, *kernel, compiled[next++])).first->second;
        scratch = std::max(scratch, prepared.code->scratch().bytes([&](Symbol dim) { return dims_.at(dim.name()); }));
      }
    }
    for (int t = 0; t < resources_.pool.threads(); ++t)
      scratch_.push_back(allocate_zeros(static_cast<std::size_t>(scratch)));
    scratch_bytes_ = scratch;
    log_plan();
  }

  void run(const Addresses& address, std::uint64_t seed, std::uint64_t step) override {
    const Run run{address, seed, step};
    for (auto& [lowered, kernel] : kernels_) start_run(kernel, run);
    for (std::size_t k = 0; k < plan_->steps.size(); ++k) {
      if (constants_known_ && constant_[k]) continue;
      std::visit([&](const auto& part) { run_step(part, run, {}); }, plan_->steps[k]);
    }
    constants_known_ = true;
  }

  std::int64_t workspace_bytes() const override {
    std::int64_t bytes = memory_.bytes + scratch_bytes_ * resources_.pool.threads();
    for (const auto& [lowered, kernel] : kernels_) bytes += kernel.own_bytes;
    return bytes;
  }

 private:
  void* inside(const std::string& tensor) const {
    const auto it = memory_.tensors.find(tensor);
    return it == memory_.tensors.end() ? nullptr : arena_.get() + it->second.offset;
  }

  /// The dims, and of a scan the step in its middle: loops over earlier steps are half as long as the longest there.
  DimValues dims_in_middle(std::size_t step) const {
    DimValues dims = dims_;
    if (const auto* scan = std::get_if<LoweredScan>(&plan_->steps[step]))
      dims[kScanStep] = evaluate(scan->extent, dims_) / 2;
    return dims;
  }

  PreparedKernel prepare(std::size_t step, const LoweredKernel& lowered, CpuKernel::Ptr code) {
    PreparedKernel kernel;
    kernel.step = step;
    kernel.lowered = &lowered;
    kernel.code = std::move(code);
    kernel.flushes = flushes_to_zero(lowered);
    for (std::size_t place = 0; place < lowered.program.arguments.size(); ++place) {
      const std::string& argument = lowered.program.arguments[place];
      if (is_scan_argument(argument)) kernel.scan_arguments.emplace_back(place, ScanArgument(argument));
    }
    kernel.alone = is_faster_alone(lowered, dims_in_middle(step), resources_.figures, resources_.pool.threads());
    const int threads = kernel.alone ? 1 : resources_.pool.threads();
    Partition partition = choose_partition(lowered, dims_, kernel.code->lanes());
    partition.tiles = std::min(partition.tiles, most_tiles(threads));
    // Each row is summed in one order, whatever their number.
    if (lowered.chunks && lowered.chunks->repeats_work)
      partition.chunks = std::min<std::int64_t>(partition.chunks, threads);
    const auto candidates = candidate_partitions(lowered, dims_, kernel.code->lanes());
    if (resources_.tune && candidates.size() > 1) {
      const std::string kernel_key = cpu_cache_key(resources_.cache, kernel.code->source(), resources_.machine);
      const std::string key = tuning_key(kernel_key, dims_, processor_of(resources_.pool.threads()));
      const auto tuned = find_tuned(resources_.cache, key, records_of(candidates));
      if (tuned) partition = tuned_partition(candidates, *tuned);
      if (!tuned) kernel.tuning_key = key;
      kernel.alone = resources_.pool.threads() == 1;
    }
    use_partition(kernel, partition);
    return kernel;
  }

  void use_partition(PreparedKernel& kernel, const Partition& partition) const {
    kernel.partition = partition;
    kernel.arguments.clear();
    for (std::int64_t piece = 0; piece < partition.tiles * partition.chunks; ++piece) {
      const Launch launch{piece / partition.chunks, partition.tiles, piece % partition.chunks, partition.chunks};
      const auto arguments = launch_arguments(*kernel.lowered, dims_, launch, kernel.code->lanes(), 0, 0);
      kernel.arguments.insert(kernel.arguments.end(), arguments.begin(), arguments.end());
    }
    kernel.buffers.clear();
    kernel.outside.clear();
    kernel.slices.clear();
    kernel.views.clear();
    kernel.combinations.clear();
    kernel.own_partials.clear();
    kernel.own_bytes = 0;
    for (std::size_t b = 0; b < kernel.lowered->uses.size(); ++b) place_buffer(kernel, b);
  }

  void place_buffer(PreparedKernel& kernel, std::size_t b) const {
    const BufferUse& use = kernel.lowered->uses[b];
    void* memory = inside(use.tensor);
    if (use.partial && kernel.partition.chunks > 1) {
      const DType dtype = plan_->fused.program.dtype_of(use.tensor);
      const std::int64_t count = written_elements(*kernel.lowered, use.tensor);
      kernel.combinations.push_back({b, *use.partial, dtype, count, has_gaps(plan_->fused.program, use.tensor),
                                     slice_of(*kernel.lowered, use.tensor)});
      memory = partial_memory(kernel, use.tensor,
                              kernel.partition.chunks * count * static_cast<std::int64_t>(size_of(dtype)));
    } else if (use.partial && kernel.lowered->in_scan) {
      kernel.slices.emplace_back(b, slice_of(*kernel.lowered, use.tensor));
    } else if (parts_.views.contains(use.tensor)) {
      kernel.views.push_back(b);
    } else if (!memory) {
      kernel.outside.push_back(b);
    }
    kernel.buffers.push_back(memory);
  }

  void* partial_memory(PreparedKernel& kernel, const std::string& tensor, std::int64_t bytes) const {
    const auto& planned = memory_.partials[kernel.step];
    if (const auto slot = planned.find(tensor); slot != planned.end() && bytes <= slot->second.bytes)
      return arena_.get() + slot->second.offset;
    kernel.own_bytes += bytes;
    kernel.own_partials.push_back(allocate_zeros(static_cast<std::size_t>(bytes)));
    return kernel.own_partials.back().get();
  }

  /// A kernel may run any number of times: nothing that it reads lies where it writes, in a scan at no step.
  void tune(PreparedKernel& kernel, const Run& run, const ScanPosition& at) {
    const auto candidates = candidate_partitions(*kernel.lowered, dims_, kernel.code->lanes());
    const auto use = [&](const Partition& partition) {
      use_partition(kernel, partition);
      start_run(kernel, run);
    };
    const auto timed_launch = [&] {
      const auto start = std::chrono::steady_clock::now();
      launch(kernel, at);
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    };
    const Trial trial{[&](std::size_t way) { use(candidates[way]); }, timed_launch};
    use(tuned_partition(candidates, measure(resources_.cache, kernel.tuning_key, records_of(candidates), trial)));
    kernel.tuning_key.clear();
    log_info(LogChannel::Runtime, "tuned {}", describe(kernel));
  }

  static std::string describe(const PreparedKernel& kernel) {
    const Partition& partition = kernel.partition;
    return fmt::format("{}: {} lanes, {} tiles, {} chunks{}{}", kernel.code->name(), kernel.code->lanes(),
                       partition.tiles, partition.chunks, partition.reason.empty() ? "" : ": ", partition.reason);
  }

  void log_plan() const {
    if (!is_logged(LogChannel::Runtime)) return;
    std::string dims;
    for (const auto& [name, value] : dims_) dims += fmt::format(" {}={}", name, value);
    write_log(
        LogChannel::Runtime,
        fmt::format("plan {}{}: {} precision, {} steps; {} bytes of workspace, {} of scratch for each of {} threads",
                    plan_->program.name, dims, to_string(plan_->program.precision), plan_->steps.size(), memory_.bytes,
                    scratch_bytes_, resources_.pool.threads()));
    for (std::size_t k = 0; k < plan_->steps.size(); ++k) {
      for (const MatrixProduct* product : products_of(plan_->steps[k]))
        write_log(LogChannel::Runtime, fmt::format("  step {} matrix product {}", k, product_text(*product)));
      for (const AlgebraCall* call : algebra_calls_of(plan_->steps[k]))
        write_log(LogChannel::Runtime, fmt::format("  step {} library {}", k, call_text(*call)));
      if (const auto* call = std::get_if<OrderedSumCall>(&plan_->steps[k]))
        write_log(LogChannel::Runtime, fmt::format("  step {} {}", k, call_text(*call)));
      for (const LoweredKernel* kernel : kernels_of(plan_->steps[k]))
        write_log(LogChannel::Runtime, fmt::format("  step {} kernel {}", k, describe(kernels_.at(kernel))));
    }
    for (const ScheduleChoice& choice : plan_->choices)
      write_log(LogChannel::Runtime,
                fmt::format("  schedule of {}: {} ({:.3g} us by estimate); instead of {}", choice.kernel, choice.chosen,
                            choice.seconds * 1e6, fmt::join(choice.alternatives, "; ")));
    for (const auto& [tensor, slot] : memory_.tensors)
      log_debug(LogChannel::Runtime, "  tensor {}: {} bytes at {}", tensor, slot.bytes, slot.offset);
  }

  /// Elements that one launch writes.
  std::int64_t written_elements(const LoweredKernel& kernel, const std::string& tensor) const {
    if (kernel.in_scan) return slice_elements(plan_->fused.program, tensor, dims_);
    std::int64_t count = 1;
    for (const std::int64_t extent : extents_of(plan_->fused.program, tensor, dims_)) count *= extent;
    return count;
  }

  static void set_argument(PreparedKernel& kernel, const char* name, std::int64_t value) {
    const auto& names = kernel.lowered->program.arguments;
    const auto place = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    for (std::size_t k = place; k < kernel.arguments.size(); k += names.size()) kernel.arguments[k] = value;
  }

  static void set_scan_arguments(PreparedKernel& kernel, const ScanPosition& at) {
    const std::size_t stride = kernel.lowered->program.arguments.size();
    for (const auto& [place, argument] : kernel.scan_arguments) {
      const std::int64_t value = argument.value(at);
      for (std::size_t k = place; k < kernel.arguments.size(); k += stride) kernel.arguments[k] = value;
    }
  }

  void start_run(PreparedKernel& kernel, const Run& run) const {
    for (const std::size_t b : kernel.outside) kernel.buffers[b] = run.address(kernel.lowered->uses[b].tensor);
    for (auto& [b, slice] : kernel.slices) slice.memory = memory_of(*slice.tensor, run);
    for (auto& combination : kernel.combinations) combination.out.memory = memory_of(*combination.out.tensor, run);
    set_argument(kernel, argument::kSeed, static_cast<std::int64_t>(run.seed));
    set_argument(kernel, argument::kStep, static_cast<std::int64_t>(run.step));
  }

  std::byte* memory_of(const SlicePart& part, const Run& run) const {
    return memory_of(part.tensor, run) + part.offset(dims_);
  }

  std::byte* memory_of(const std::string& tensor, const Run& run) const {
    if (const auto view = parts_.views.find(tensor); view != parts_.views.end()) return memory_of(view->second, run);
    void* own = inside(tensor);
    return static_cast<std::byte*>(own ? own : run.address(tensor));
  }

  /// Names are looked up here, and not at every step of a scan.
  SlicePlace slice_of(const LoweredKernel& kernel, const std::string& tensor) const {
    const Program& program = plan_->fused.program;
    if (!kernel.in_scan) return {&tensor};
    const auto element = static_cast<std::int64_t>(size_of(program.dtype_of(tensor)));
    return {&tensor, slice_elements(program, tensor, dims_) * element,
            ScanArgument(argument_of_step(plan_->fused, tensor))};
  }

  void run_step(const LoweredScan& scan, const Run& run, const ScanPosition& /*at*/) {
    // A step of a scalar recurrence takes some nanoseconds: kernels are looked up once.
    std::vector<std::variant<PreparedKernel*, const MatrixProduct*, const AlgebraCall*>> steps;
    const auto prepared = Overload{[&](const LoweredKernel& kernel) { steps.emplace_back(&kernels_.at(&kernel)); },
                                   [&](const auto& by_library) { steps.emplace_back(&by_library); }};
    for (const LoweredScanStep& step : scan.steps) std::visit(prepared, step);
    const auto flushes = [](const auto& step) {
      const auto* kernel = std::get_if<PreparedKernel*>(&step);
      return kernel && (*kernel)->flushes;
    };
    const FlushToZero flush(std::ranges::all_of(steps, flushes));
    const std::int64_t rounds = evaluate(scan.extent, dims_);
    for (std::int64_t n = 0; n < rounds; ++n) {
      const ScanPosition at = scan_position(n, rounds, scan.backwards);
      const auto take = Overload{[&](PreparedKernel* kernel) { run_kernel(*kernel, run, at); },
                                 [&](const auto* by_library) { run_step(*by_library, run, at); }};
      for (const auto& step : steps) std::visit(take, step);
    }
  }

  void run_step(const LoweredSlices& slices, const Run& run, const ScanPosition& /*at*/) {
    const std::int64_t count = slice_count(slices.slices, dims_);
    if (count == 0) clear_sums(slices.slices, run);
    for (std::int64_t number = 0; number < count; ++number) {
      set_dims_of_run(slices.slices, number, dims_);
      for (const LoweredSliceStep& step : slices.steps) {
        start_slice(step, slices.slices, run);
        std::visit([&](const auto& part) { run_step(part, run, {}); }, step);
      }
      for (const auto& [name, view] : slices.slices.parts) add_part(name, slices.slices.sums.at(name), run);
    }
  }

  /// Sums of nothing are 0.
  void clear_sums(const Slices& slices, const Run& run) const {
    for (const auto& [name, summed] : slices.sums) {
      const auto sum = parts_.sums.find(name);
      const std::string& whole = (sum == parts_.sums.end() ? parts_.views.at(name) : sum->second).tensor;
      const std::int64_t count = count_elements(plan_->fused.program, whole, dims_);
      const auto bytes = static_cast<std::size_t>(count) * size_of(plan_->fused.program.dtype_of(whole));
      std::fill_n(memory_of(whole, run), bytes, std::byte{0});
    }
  }

  /// Adds what a slice has of a sum to what the slices before it have.
  void add_part(const std::string& name, const std::vector<std::string>& summed, const Run& run) const {
    add_slice(plan_->fused.program.dtype_of(name), memory_of(name, run),
              count_elements(plan_->fused.program, name, dims_), !is_later(summed, dims_),
              memory_of(parts_.sums.at(name), run));
  }

  void start_slice(const LoweredSliceStep& step, const Slices& slices, const Run& run) {
    if (const auto* lowered = std::get_if<LoweredKernel>(&step)) start_slice(kernels_.at(lowered), slices, run);
    const auto* scan = std::get_if<LoweredScan>(&step);
    if (!scan) return;
    for (const LoweredScanStep& part : scan->steps) {
      if (const auto* lowered = std::get_if<LoweredKernel>(&part)) start_slice(kernels_.at(lowered), slices, run);
    }
  }

  /// Pieces of a slice that is not whole have other ends.
  void start_slice(PreparedKernel& kernel, const Slices& slices, const Run& run) const {
    const auto differs = [&](const SliceAxis& axis) {
      return !axis.count.empty() && argument_of(kernel, axis.count) != dims_.find(axis.count)->second;
    };
    if (std::ranges::any_of(slices.axes, differs)) {
      use_partition(kernel, kernel.partition);
      start_run(kernel, run);
    }
    for (const SliceAxis& axis : slices.axes) set_argument(kernel, axis.first.c_str(), dims_.find(axis.first)->second);
    for (const std::size_t b : kernel.views) kernel.buffers[b] = memory_of(kernel.lowered->uses[b].tensor, run);
    for (auto& [b, slice] : kernel.slices) slice.memory = memory_of(*slice.tensor, run);
    for (auto& combination : kernel.combinations) combination.out.memory = memory_of(*combination.out.tensor, run);
  }

  static std::int64_t argument_of(const PreparedKernel& kernel, const std::string& name) {
    const auto& names = kernel.lowered->program.arguments;
    return kernel.arguments.at(static_cast<std::size_t>(std::ranges::find(names, name) - names.begin()));
  }

  void run_step(const LoweredKernel& lowered, const Run& run, const ScanPosition& at) {
    run_kernel(kernels_.at(&lowered), run, at);
  }

  void run_kernel(PreparedKernel& kernel, const Run& run, const ScanPosition& at) {
    if (!kernel.tuning_key.empty()) tune(kernel, run, at);
    launch(kernel, at);
  }

  void run_piece(const PreparedKernel& kernel, std::int64_t piece, int thread) {
    const FlushToZero flush(kernel.flushes);
    const std::size_t stride = kernel.lowered->program.arguments.size();
    KernelStatus status;
    kernel.code->run(kernel.buffers.data(), kernel.arguments.data() + stride * static_cast<std::size_t>(piece),
                     scratch_[static_cast<std::size_t>(thread)].get(), &status);
    if (status.failed) throw_if_failed(*kernel.lowered, status);
  }

  void launch(PreparedKernel& kernel, const ScanPosition& at) {
    const LoweredKernel& lowered = *kernel.lowered;
    if (lowered.in_scan) set_scan_arguments(kernel, at);
    for (const auto& [b, slice] : kernel.slices) kernel.buffers[b] = slice.at(at);
    for (const auto& combination : kernel.combinations) clear_gaps(combination, kernel);
    const std::int64_t pieces = kernel.partition.tiles * kernel.partition.chunks;
    LaunchObserver* observer = resources_.observer.get();
    if (observer) observer->before(lowered, *plan_, kernel.buffers, kernel.arguments);
    if (kernel.alone) {
      for (std::int64_t piece = 0; piece < pieces; ++piece) run_piece(kernel, piece, 0);
    } else {
      resources_.pool.run(pieces, [&](std::int64_t piece, int thread) { run_piece(kernel, piece, thread); });
    }
    if (observer) observer->after(lowered);
    for (const auto& combination : kernel.combinations) combine(combination, kernel, combination.out.at(at));
  }

  /// Partial results lie where other tensors did.
  static void clear_gaps(const PreparedKernel::Combination& c, const PreparedKernel& kernel) {
    if (!c.has_gaps) return;
    const auto bytes = static_cast<std::size_t>(kernel.partition.chunks * c.count) * size_of(c.dtype);
    std::fill_n(static_cast<std::byte*>(kernel.buffers[c.buffer]), bytes, std::byte{0});
  }

  void run_step(const MatrixProduct& product, const Run& run, const ScanPosition& at) {
    const ProductCall call = product_call(*plan_, product, dims_, at);
    gemm(resources_.pool, product.definition.dtype, call, product.alpha, memory_of(product.left.tensor, run),
         memory_of(product.right.tensor, run), memory_of(product.out.tensor, run), is_later(product.slices, dims_));
  }

  void run_step(const AlgebraCall& call, const Run& run, const ScanPosition& at) {
    const std::vector<std::string> operands = operands_of(call);
    if (sorts_row(call.definition.body->algebra)) {
      const std::string& row = operands.front();
      sort_rows(resources_.pool, plan_->fused.program.dtype_of(row), algebra_shape(*plan_, call, dims_, at),
                memory_of(row, run), memory_of(call.definition.name, run));
      return;
    }
    run_algebra(resources_.pool, call, algebra_shape(*plan_, call, dims_, at), memory_of(operands.front(), run),
                memory_of(operands.back(), run), memory_of(call.definition.name, run));
  }

  void run_step(const OrderedSumCall& call, const Run& run, const ScanPosition& /*at*/) {
    const auto memory = [&](const OrderedOperand& operand) -> const void* {
      return operand.tensor.empty() ? nullptr : memory_of(operand.tensor, run);
    };
    run_ordered_sum(resources_.pool, call, ordered_sum_shape(*plan_, call, dims_),
                    {memory(call.key), memory(call.query), memory(call.weight), memory(call.scale),
                     memory_of(call.definition.name, run)});
  }

  std::shared_ptr<const Plan> plan_;
  DimValues dims_;  // with those of the slice that runs
  SliceParts parts_;
  std::vector<bool> constant_;    // of every step of the plan
  bool constants_known_ = false;  // they have run
  MemoryPlan memory_;
  CpuResources& resources_;
  HostMemory arena_;
  std::map<const LoweredKernel*, PreparedKernel> kernels_;  // of every step of the plan
  std::vector<HostMemory> scratch_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Executable> make_cpu_executable(std::shared_ptr<const Plan> plan, DimValues dims,
                                                CpuResources& resources) {
  return std::make_unique<CpuExecutable>(std::move(plan), std::move(dims), resources);
}

}  // namespace moxie
