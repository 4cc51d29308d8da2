#include "runtime/aot/cuda_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "compiler/codegen/cuda/kernel_shape.h"
#include "compiler/support/error.h"
#include "runtime/aot/call_checks.h"
#include "runtime/aot/failure_messages.h"
#include "runtime/aot/plan_driver.h"

namespace moxie::aot {
namespace {

using cuda::CompiledKernel;
using llvm_ir::Scalar;
using llvm_ir::typed;
using Kind = CudaParameter::Kind;

constexpr std::int64_t kStatusBytes = sizeof(KernelStatus);
/// In the workspace: a CudaRandomState, and behind it the status of all kernels.
constexpr std::int64_t kStatusBegin = kWorkspaceAlignment;
constexpr std::int64_t kStateBytes = 2 * kWorkspaceAlignment;
static_assert(kStatusBegin + kStatusBytes <= kStateBytes);

Pointer handle(FunctionWriter& w, std::size_t kernel, std::int64_t which) {
  return w.word({"%gpu"}, kHandlesBegin + kHandlesPerKernel * static_cast<std::int64_t>(kernel) + which);
}

/// Of all kernels, numbered one after the other.
std::vector<CheckDecl> all_checks(std::span<const CompiledKernel> kernels) {
  std::vector<CheckDecl> checks;
  for (const CompiledKernel& kernel : kernels) {
    const auto& own = kernel.lowered->program.checks;
    checks.insert(checks.end(), own.begin(), own.end());
  }
  return checks;
}

std::string head(const std::string& prefix, const char* name, const char* parameters) {
  return fmt::format("define hidden i32 @\"{}.{}\"({}) nounwind", prefix, name, parameters);
}

// ---- Loading ----

void write_unload(FunctionWriter& w, const Pointer& message, std::size_t kernels) {
  for (std::size_t k = 0; k < kernels; ++k) {
    const Pointer module = w.load_pointer(handle(w, k, 0));
    w.when(w.is("ne", w.address(module), w.integer(0)), [&] {
      w.store(handle(w, k, 0), w.integer(0));
      call_driver(w, message, "cuModuleUnload", "ptr", "ptr " + module.text, "unloading a kernel");
    });
  }
  w.store({"%gpu"}, w.integer(0));
}

void add_unload(ModuleText& module, std::size_t kernels, const std::string& prefix) {
  FunctionWriter w(module, head(prefix, "unload", "ptr %gpu, ptr %message"));
  write_unload(w, begin_message(w), kernels);
  w.finish();
}

/// What was loaded before a failure is unloaded again.
void add_load(ModuleText& module, const std::vector<CompiledKernel>& kernels, const std::string& prefix) {
  FunctionWriter w(module, head(prefix, "load", "ptr %gpu, ptr %message"));
  const Pointer message = begin_message(w);
  for (std::size_t k = 0; k < kernels.size(); ++k) w.store(handle(w, k, 0), w.integer(0));
  const auto unload = [&] {
    w.ir().raw(Scalar::i32, 1, fmt::format("call i32 @\"{}.unload\"(ptr %gpu, ptr null)", prefix));
  };
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const CudaKernel& kernel = kernels[k].kernel;
    const Pointer image = w.module().image(kernels[k].code.object);
    const std::string what = "loading kernel " + escaped(kernel.entry);
    call_driver(w, message, "cuModuleLoadData", "ptr, ptr",
                fmt::format("ptr {}, ptr {}", handle(w, k, 0).text, image.text), what, unload);
    for (const std::int64_t which : {1, 2}) {
      const std::string& entry = which == 1 ? kernel.entry : kernel.combine_entry;
      if (entry.empty()) continue;
      const std::string operands = fmt::format("ptr {}, ptr {}, ptr {}", handle(w, k, which).text,
                                               w.load_pointer(handle(w, k, 0)).text, w.module().text(entry).text);
      call_driver(w, message, "cuModuleGetFunction", "ptr, ptr, ptr", operands, what, unload);
    }
  }
  w.finish();
}

// ---- Running ----

/// A kernel's blocks for the dims of the call.
struct Grid {
  Val tiles, chunks;
};

class CudaDriver final : public PlanDriver {
 public:
  CudaDriver(ModuleText& module, const std::string& head, const Plan& plan, const Interface& interface,
             const std::vector<CompiledKernel>& kernels)
      : PlanDriver(module, head, plan, interface), kernels_(kernels) {
    for (std::size_t k = 0; k < kernels.size(); ++k) numbers_.emplace(kernels[k].lowered, k);
    for (const CompiledKernel& kernel : kernels) grids_.push_back(grid_of(kernel));
  }

 private:
  // ---- Shapes: choose_cuda_grid() for the dims of the call ----

  Val rounded_division(const Val& a, std::int64_t b) { return w_.divide(w_.add(a, w_.integer(b - 1)), w_.integer(b)); }

  Grid grid_of(const CompiledKernel& compiled) {
    const LoweredKernel& kernel = *compiled.lowered;
    const CudaSchedule& schedule = compiled.schedule;
    Grid grid{w_.integer(1), w_.integer(1)};
    const Val fitting = w_.integer(std::int64_t{schedule.blocks} * GpuLimits{}.multiprocessors);
    for (const Range& range : cuda_text::element_ranges(for_threads(kernel)))
      grid.tiles = w_.mul(grid.tiles, math_.rounds(range));
    grid.tiles = rounded_division(grid.tiles, elements_per_block(schedule));
    if (schedule.persistent) grid.tiles = w_.smaller(grid.tiles, fitting);
    const Val one = w_.integer(1);
    const Val most = w_.larger(w_.divide(fitting, w_.larger(grid.tiles, one)), one);
    if (!kernel.chunks && !schedule.spread) return grid;
    const std::int64_t rows = kernel.chunks ? rounds_at_once(kernel, schedule) : schedule.rows;
    Val rounds = w_.integer(kernel.chunks ? 1 : cuda_text::kernel_shape(kernel).shared_rounds);
    if (kernel.chunks) {
      for (const Range& range : cuda_text::chunked_ranges(for_threads(kernel)))
        rounds = w_.mul(rounds, math_.rounds(range));
    }
    grid.chunks = w_.smaller(w_.larger(rounded_division(rounds, rows), w_.integer(1)), most);
    return grid;
  }

  /// Kernels count elements with 32 bits.
  void check_reach() override {
    const Val most = w_.integer(std::numeric_limits<std::int32_t>::max());
    for (const PlanStep& step : plan_.steps) {
      for (const std::string& tensor : tensors_of(step)) {
        if (!reached_.insert(tensor).second) continue;
        const Val count = math_.count(plan_.fused.program.shape_of(tensor));
        w_.leave_when(w_.is("sgt", count, most), wrong_shape, [&] {
          complain(w_, call_.message,
                   escaped(interface_.name + ": " + tensor) +
                       " has %lld elements, but GPU code of a library reaches 2147483647; use smaller batches",
                   {count});
        });
      }
    }
  }

  // ---- Memory ----

  Val chunks_of(const LoweredKernel& kernel) override { return grids_[numbers_.at(&kernel)].chunks; }

  Val bytes_before_slots() override {
    Val blocks = w_.integer(0);
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      const Val count = w_.mul(grids_[k].tiles, grids_[k].chunks);
      blocks = w_.larger(blocks, w_.saturating_mul(count, math_.bytes(kernels_[k].schedule.workspace)));
    }
    return w_.saturating_add(w_.integer(kStateBytes), blocks);
  }

  void add_part(const std::string& part, const Pointer& /*whole*/, const Val& /*adds*/) override {
    throw InternalError("the plan of a GPU adds up " + part + " from slice to slice");
  }

  // ---- Calls of the driver ----

  void clear(const Pointer& from, const Val& bytes) override {
    call_driver(w_, call_.message, "cuMemsetD8Async", "ptr, i8, i64, ptr",
                fmt::format("ptr {}, i8 0, {}, ptr %stream", from.text, typed(bytes)), "clearing memory");
  }

  /// Values travel with the call, so that it can be captured into a graph.
  void set_word(std::int64_t offset, const Val& value) {
    for (const int half : {0, 1}) {
      const Val bits = half == 0 ? value : w_.ir().binary("lshr", value, w_.integer(32));
      const Pointer place = w_.offset(workspace_, w_.integer(offset + 4 * half));
      call_driver(
          w_, call_.message, "cuMemsetD32Async", "ptr, i32, i64, ptr",
          fmt::format("ptr {}, {}, i64 1, ptr %stream", place.text, typed(w_.ir().extend(bits, Scalar::i32, false))),
          "passing the state of random numbers");
    }
  }

  void start() override {
    if (interface_.random) {
      for (const int k : {0, 1}) set_word(8 * k, w_.load(w_.word(call_.arguments, interface_.word_of_seed() + k)));
    }
    clear(w_.offset(workspace_, w_.integer(kStatusBegin)), w_.integer(kStatusBytes));
  }

  void launch(const Pointer& function, const Val& tiles, const Val& chunks, int lanes, int rows,
              const std::vector<Val>& parameters, const std::string& name) {
    const auto count = static_cast<std::int64_t>(parameters.size());
    const Pointer values = w_.words(count), addresses = w_.words(count);
    for (std::int64_t k = 0; k < count; ++k) {
      w_.store(w_.word(values, k), parameters[static_cast<std::size_t>(k)]);
      w_.store(w_.word(addresses, k), w_.word(values, k));
    }
    const auto narrow = [&](const Val& value) { return typed(w_.ir().extend(value, Scalar::i32, false)); };
    call_driver(w_, call_.message, "cuLaunchKernel", "ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr",
                fmt::format("ptr {}, {}, {}, i32 1, i32 {}, i32 {}, i32 1, i32 0, ptr %stream, ptr {}, ptr null",
                            function.text, narrow(tiles), narrow(chunks), lanes, rows, addresses.text),
                "launching kernel " + escaped(name));
  }

  // ---- Steps ----

  void run_kernel(const LoweredKernel& kernel, const std::optional<StepValues>& at) override {
    const std::size_t number = numbers_.at(&kernel);
    const CompiledKernel& compiled = kernels_[number];
    const Grid& grid = grids_[number];
    w_.when(w_.is("sgt", grid.tiles, w_.integer(0)), [&] {
      std::vector<Val> parameters;
      for (const CudaParameter& parameter : compiled.kernel.parameters)
        parameters.push_back(value_of(number, parameter, at));
      launch(w_.load_pointer(handle(w_, number, 1)), grid.tiles, grid.chunks, compiled.schedule.lanes,
             compiled.schedule.rows, parameters, compiled.kernel.entry);
      if (compiled.kernel.combined.empty()) return;
      w_.when(w_.is("sgt", grid.chunks, w_.integer(1)), [&] { combine(number, at); });
    });
  }

  void combine(std::size_t number, const std::optional<StepValues>& at) {
    const CompiledKernel& compiled = kernels_[number];
    std::vector<Val> parameters;
    Val elements = w_.integer(0);
    for (const BufferId buffer : compiled.kernel.combined) {
      const std::string& tensor = compiled.lowered->uses[buffer].tensor;
      const Val count = written_count(*compiled.lowered, tensor);
      parameters.insert(parameters.end(), {w_.address(partials_of(*compiled.lowered, tensor)),
                                           w_.address(target_of(*compiled.lowered, tensor, at)), count});
      elements = w_.add(elements, count);
    }
    parameters.push_back(grids_[number].chunks);
    w_.when(w_.is("sgt", elements, w_.integer(0)), [&] {
      launch(w_.load_pointer(handle(w_, number, 2)), rounded_division(elements, kWarp), w_.integer(1), kWarp,
             kCombineRows, parameters, compiled.kernel.combine_entry);
    });
  }

  Val value_of(std::size_t number, const CudaParameter& parameter, const std::optional<StepValues>& at) {
    const LoweredKernel& lowered = *kernels_[number].lowered;
    switch (parameter.kind) {
      case Kind::buffer:
        return w_.address(buffer_of(lowered, lowered.uses[parameter.index], grids_[number].chunks, at));
      case Kind::argument:
        return is_scan_argument(parameter.name) ? scan_value(parameter.name, *at) : math_.value(parameter.name);
      case Kind::workspace:
        return w_.address(w_.offset(workspace_, w_.integer(kStateBytes)));
      case Kind::random:
        return w_.address(workspace_);
      case Kind::status:
        return w_.address(w_.offset(workspace_, w_.integer(kStatusBegin)));
      case Kind::first_check:
        return w_.integer(static_cast<std::int64_t>(all_checks(std::span(kernels_).first(number)).size()));
    }
    throw InternalError("a kernel has a parameter of an unknown kind");
  }

  const std::vector<CompiledKernel>& kernels_;
  std::map<const LoweredKernel*, std::size_t> numbers_;
  std::vector<Grid> grids_;
  std::set<std::string> reached_;
};

/// Waits for the stream, since what kernels found lies on the GPU.
void add_check(ModuleText& module, const Interface& interface, const std::vector<CompiledKernel>& kernels,
               const std::string& prefix) {
  FunctionWriter w(module, head(prefix, "check", "ptr %workspace, ptr %stream, ptr %message"));
  const Call call{{}, begin_message(w)};
  w.leave_when(w.is_null({"%workspace"}), wrong_argument, [&] {
    complain(w, call.message, escaped(interface.name) + "_check: the workspace of the call is wanted");
  });
  const Pointer status = w.words(kStatusBytes / 8);
  const Pointer from = w.offset(workspace_start(w), w.integer(kStatusBegin));
  call_driver(w, call.message, "cuMemcpyDtoHAsync_v2", "ptr, ptr, i64, ptr",
              fmt::format("ptr {}, ptr {}, i64 {}, ptr %stream", status.text, from.text, kStatusBytes),
              "reading results");
  call_driver(w, call.message, "cuStreamSynchronize", "ptr", "ptr %stream", "running kernels");
  leave_where_failed(w, call, all_checks(kernels), status);
  w.finish();
}

}  // namespace

void call_driver(FunctionWriter& w, const Pointer& message, const std::string& name, const std::string& types,
                 const std::string& operands, const std::string& what, const std::function<void()>& before) {
  w.module().declare(fmt::format("declare i32 @{}({})", name, types));
  w.module().declare("declare i32 @cuGetErrorString(i32, ptr)");
  const Val error = w.ir().raw(Scalar::i32, 1, fmt::format("call i32 @{}({})", name, operands));
  w.leave_when(w.ir().icmp("ne", error, {Scalar::i32, 1, "0"}), driver_error, [&] {
    const Pointer text = w.words(1);
    w.store(text, w.module().text("unknown error"));
    w.ir().raw(Scalar::i32, 1, fmt::format("call i32 @cuGetErrorString({}, ptr {})", typed(error), text.text));
    complain(w, message, what + " failed: CUDA error %lld, %s",
             {w.ir().extend(error, Scalar::i64, false), w.address(w.load_pointer(text))});
    if (before) before();
  });
}

void add_cuda_driver(ModuleText& module, const Plan& plan, const Interface& interface,
                     const std::vector<CompiledKernel>& kernels, const std::string& prefix) {
  Interface named = interface;
  named.name += "_cuda";
  add_load(module, kernels, prefix);
  add_unload(module, kernels.size(), prefix);
  CudaDriver(module, head(prefix, "workspace", "ptr %arguments, ptr %bytes, ptr %message"), plan, named, kernels)
      .write_workspace();
  const char* parameters = "ptr %gpu, ptr %arguments, ptr %workspace, i64 %workspace_bytes, ptr %stream, ptr %message";
  CudaDriver(module, head(prefix, "run", parameters), plan, named, kernels).write_run();
  add_check(module, named, kernels, prefix);
}

}  // namespace moxie::aot
