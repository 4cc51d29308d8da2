#include "runtime/cpu/cpu_device.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "runtime/cpu/blas.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/thread_pool.h"
#include "compiler/support/error.h"
#include "runtime/launch.h"

namespace moxie {
namespace {

constexpr std::size_t kAlignment = 64;

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;

/// Zeroed, since elements of partial results that no loop writes are summed all the same.
Memory allocate(std::int64_t bytes) {
  const std::size_t size = (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  if (!memory) throw DeviceError("out of memory: " + std::to_string(size) + " bytes were wanted; use smaller batches");
  std::fill_n(memory, size, std::byte{0});
  return Memory(memory);
}

/// Sums `chunks` blocks of `count` elements in order, in double.
template <class T>
void combine(ReduceKind kind, const T* partials, std::int64_t chunks, std::int64_t count, T* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    double value = partials[i];
    for (std::int64_t c = 1; c < chunks; ++c) {
      const double next = partials[c * count + i];
      switch (kind) {
        case ReduceKind::Product: value *= next; break;
        case ReduceKind::Max: value = std::max(value, next); break;
        case ReduceKind::Min: value = std::min(value, next); break;
        default: value += next; break;
      }
    }
    out[i] = static_cast<T>(value);
  }
}

/// One kernel with everything that does not change from run to run.
struct PreparedKernel {
  const LoweredKernel* lowered = nullptr;
  CpuKernel::Ptr code;
  Schedule schedule;
  std::vector<std::int64_t> arguments;      // per call, one after the other
  std::vector<void*> buffers;               // of a call; inputs and outputs are filled in at each run
  std::vector<std::size_t> outside;         // buffers that are inputs or outputs
  struct Combination {
    std::size_t buffer;
    ReduceKind kind;
    DType dtype;
    std::int64_t count;
    void* inside = nullptr;  // the combined tensor's memory; null for an output
    std::string tensor;
  };
  std::vector<Combination> combinations;
};

class CpuExecutable : public Executable {
 public:
  CpuExecutable(std::shared_ptr<const Plan> plan, DimValues dims, const VectorMachine& machine, KernelCache* cache, ThreadPool& pool)
      : plan_(std::move(plan)), dims_(std::move(dims)), memory_(plan_memory(*plan_, dims_)), pool_(pool), arena_(allocate(memory_.bytes)) {
    std::vector<LoopProgram> programs;
    for (const PlanStep& step : plan_->steps) {
      for (const LoweredKernel& kernel : kernels_of(step)) programs.push_back(kernel.program);
    }
    const std::vector<CpuKernel::Ptr> compiled = CpuKernel::build_all(programs, machine, cache);
    std::int64_t scratch = 0;
    std::size_t next = 0;
    kernels_.resize(plan_->steps.size());
    for (std::size_t k = 0; k < plan_->steps.size(); ++k) {
      if (std::holds_alternative<MatrixProduct>(plan_->steps[k])) prepare_blas(pool_.threads());
      for (const LoweredKernel& kernel : kernels_of(plan_->steps[k])) {
        kernels_[k].push_back(prepare(k, kernel, compiled[next++]));
        scratch = std::max(scratch, kernels_[k].back().code->scratch_bytes());
      }
    }
    for (int t = 0; t < pool_.threads(); ++t) scratch_.push_back(allocate(scratch));
    scratch_bytes_ = scratch;
  }

  void run(const std::function<void*(const std::string&)>& address, std::uint64_t seed, std::uint64_t step) override {
    for (std::size_t k = 0; k < plan_->steps.size(); ++k) {
      if (const auto* product = std::get_if<MatrixProduct>(&plan_->steps[k])) multiply(*product, address);
      for (PreparedKernel& kernel : kernels_[k]) start_run(kernel, address, seed, step);
      const auto* scan = std::get_if<LoweredScan>(&plan_->steps[k]);
      const std::int64_t rounds = scan ? evaluate(scan->extent, dims_) : 1;
      for (std::int64_t n = 0; n < rounds; ++n) {
        const std::int64_t scan_step = scan && scan->backwards ? rounds - 1 - n : n;
        for (PreparedKernel& kernel : kernels_[k]) run_kernel(kernel, address, scan_step);
      }
    }
  }

  std::int64_t workspace_bytes() const override { return memory_.bytes + scratch_bytes_ * pool_.threads(); }

 private:
  void* inside(const std::string& tensor) const {
    const auto it = memory_.tensors.find(tensor);
    return it == memory_.tensors.end() ? nullptr : arena_.get() + it->second.offset;
  }

  PreparedKernel prepare(std::size_t index, const LoweredKernel& lowered, CpuKernel::Ptr code) const {
    PreparedKernel kernel;
    kernel.lowered = &lowered;
    kernel.code = std::move(code);
    kernel.schedule = choose_schedule(lowered, dims_, kernel.code->lanes());
    for (std::int64_t piece = 0; piece < kernel.schedule.tiles * kernel.schedule.chunks; ++piece) {
      const Launch launch{piece / kernel.schedule.chunks, kernel.schedule.tiles, piece % kernel.schedule.chunks, kernel.schedule.chunks};
      const auto arguments = launch_arguments(lowered, dims_, launch, kernel.code->lanes(), 0, 0);
      kernel.arguments.insert(kernel.arguments.end(), arguments.begin(), arguments.end());
    }
    for (std::size_t b = 0; b < lowered.uses.size(); ++b) {
      const BufferUse& use = lowered.uses[b];
      void* memory = inside(use.tensor);
      if (use.partial && kernel.schedule.chunks > 1) {
        const std::int64_t count = element_count(use.tensor);
        kernel.combinations.push_back({b, *use.partial, plan_->fused.program.dtype_of(use.tensor), count, memory, use.tensor});
        memory = arena_.get() + memory_.partials[index].at(use.tensor).offset;
      } else if (!memory) {
        kernel.outside.push_back(b);
      }
      kernel.buffers.push_back(memory);
    }
    return kernel;
  }

  std::int64_t element_count(const std::string& tensor) const {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents_of(plan_->fused.program, tensor, dims_)) count *= extent;
    return count;
  }

  static void set_argument(PreparedKernel& kernel, const char* name, std::int64_t value) {
    const auto& names = kernel.lowered->program.arguments;
    const auto place = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    for (std::size_t k = place; k < kernel.arguments.size(); k += names.size()) kernel.arguments[k] = value;
  }

  static void start_run(PreparedKernel& kernel, const std::function<void*(const std::string&)>& address, std::uint64_t seed, std::uint64_t step) {
    for (const std::size_t b : kernel.outside) kernel.buffers[b] = address(kernel.lowered->uses[b].tensor);
    set_argument(kernel, argument::kSeed, static_cast<std::int64_t>(seed));
    set_argument(kernel, argument::kStep, static_cast<std::int64_t>(step));
  }

  void run_kernel(PreparedKernel& kernel, const std::function<void*(const std::string&)>& address, std::int64_t scan_step) {
    if (kernel.lowered->in_scan) set_argument(kernel, kScanStep, scan_step);
    const std::size_t stride = kernel.lowered->program.arguments.size();
    const std::int64_t pieces = kernel.schedule.tiles * kernel.schedule.chunks;
    pool_.run(pieces, [&](std::int64_t piece, int thread) {
      KernelStatus status;
      kernel.code->run(kernel.buffers.data(), kernel.arguments.data() + stride * static_cast<std::size_t>(piece),
                       scratch_[static_cast<std::size_t>(thread)].get(), &status);
      if (status.failed) throw_if_failed(*kernel.lowered, status);
    });
    for (const auto& c : kernel.combinations) {
      void* out = c.inside ? c.inside : address(c.tensor);
      const void* partials = kernel.buffers[c.buffer];
      if (c.dtype == DType::f32) combine(c.kind, static_cast<const float*>(partials), kernel.schedule.chunks, c.count, static_cast<float*>(out));
      else combine(c.kind, static_cast<const double*>(partials), kernel.schedule.chunks, c.count, static_cast<double*>(out));
    }
  }

  void multiply(const MatrixProduct& product, const std::function<void*(const std::string&)>& address) const {
    const auto memory = [&](const std::string& tensor) {
      void* own = inside(tensor);
      return own ? own : address(tensor);
    };
    const GemmShape shape{product.left_transposed != lies_transposed(*plan_, product.left), product.right_transposed != lies_transposed(*plan_, product.right),
                          evaluate(product.rows, dims_), evaluate(product.columns, dims_), evaluate(product.depth, dims_)};
    gemm(product.definition.dtype, shape, product.alpha, memory(product.left), memory(product.right), memory(product.definition.name));
  }

  std::shared_ptr<const Plan> plan_;
  DimValues dims_;
  MemoryPlan memory_;
  ThreadPool& pool_;
  Memory arena_;
  std::vector<std::vector<PreparedKernel>> kernels_;  // of every step of the plan
  std::vector<Memory> scratch_;
  std::int64_t scratch_bytes_ = 0;
};

/// Empty for no cache on disk.
std::filesystem::path cache_directory(const DeviceOptions& options) {
  if (options.cache_directory.empty()) return default_cache_dir();
  return options.cache_directory == "0" ? std::filesystem::path() : std::filesystem::path(options.cache_directory);
}

class CpuDevice : public Device {
 public:
  CpuDevice(const DeviceOptions& options, const VectorMachine& machine)
      : machine_(machine),
        cache_(cache_directory(options)),
        pool_(options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))) {}

  std::string name() const override { return "cpu"; }
  CacheStats cache_stats() const override { return cache_.stats(); }
  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    return std::make_unique<CpuExecutable>(std::move(plan), dims, machine_, &cache_, pool_);
  }

 private:
  VectorMachine machine_;
  KernelCache cache_;
  ThreadPool pool_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device(const DeviceOptions& options, const VectorMachine& machine) {
  return std::make_shared<CpuDevice>(options, machine);
}

}  // namespace moxie
