#include "runtime/aot/cpu_driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/aot/failure_messages.h"
#include "runtime/aot/flush_to_zero.h"
#include "runtime/aot/plan_driver.h"
#include "runtime/launch.h"

namespace moxie::aot {
namespace {

using llvm_ir::Scalar;
using llvm_ir::typed;

class CpuDriver final : public PlanDriver {
 public:
  CpuDriver(ModuleText& module, const std::string& head, const Plan& plan, const Interface& interface,
            const std::vector<CpuKernelCode>& kernels, std::string_view triple)
      : PlanDriver(module, head, plan, interface), kernels_(kernels), triple_(triple) {
    for (const CpuKernelCode& code : kernels) {
      const auto& chunks = code.lowered->chunks;
      chunks_.emplace(code.lowered, chunks && !chunks->repeats_work ? math_.chunks(*chunks) : w_.integer(1));
    }
  }

 private:
  Val chunks_of(const LoweredKernel& kernel) override { return chunks_.at(&kernel); }

  /// Kernels run one after the other and share what they keep to themselves.
  Val bytes_before_slots() override {
    Val largest = w_.integer(0);
    for (const CpuKernelCode& kernel : kernels_) largest = w_.larger(largest, math_.bytes(kernel.scratch));
    return largest;
  }

  void clear(const Pointer& from, const Val& bytes) override {
    w_.module().declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)");
    w_.ir().line(fmt::format("call void @llvm.memset.p0.i64(ptr {}, i8 0, {}, i1 false)", from.text, typed(bytes)));
  }

  void run_kernel(const LoweredKernel& kernel, const std::optional<StepValues>& at) override {
    const CpuKernelCode& code = *std::ranges::find(kernels_, &kernel, &CpuKernelCode::lowered);
    const Val rows = kernel.chunks ? math_.rounds(*kernel.chunks) : w_.integer(0);
    const Val chunks = chunks_of(kernel);
    const Pointer buffers = w_.words(static_cast<std::int64_t>(kernel.uses.size()));
    for (std::size_t b = 0; b < kernel.uses.size(); ++b)
      w_.store(w_.word(buffers, static_cast<std::int64_t>(b)), buffer_of(kernel, kernel.uses[b], chunks, at));
    w_.loop(chunks, [&](const Val& chunk) {
      DimMath::Values values = piece_values(kernel, code.lanes, rows, chunk, chunks);
      for (const std::string& argument : kernel.program.arguments) {
        if (is_scan_argument(argument)) values.insert_or_assign(argument, scan_value(argument, *at));
      }
      call(code, buffers, values);
    });
    combine(kernel, chunks, at);
  }

  /// The arguments of the call for one chunk. Tiles are not shared out: results do not depend on them.
  DimMath::Values piece_values(const LoweredKernel& kernel, int lanes, const Val& rows, const Val& chunk,
                               const Val& chunks) {
    DimMath::Values values = math_.values();
    const auto set = [&](const char* name, const Val& value) { values.insert_or_assign(name, value); };
    const Val zero = w_.integer(0);
    set(argument::kChunk, chunk);
    set(argument::kChunks, chunks);
    set(argument::kTileLow, zero);
    set(argument::kTileHigh, kernel.tiles ? math_.rounds(*kernel.tiles) : zero);
    set(argument::kChunkLow, kernel.chunks ? math_.boundary(*kernel.chunks, rows, chunk, chunks, lanes) : zero);
    const Val next = w_.add(chunk, w_.integer(1));
    set(argument::kChunkHigh, kernel.chunks ? math_.boundary(*kernel.chunks, rows, next, chunks, lanes) : zero);
    for (int k = 0; k < 2; ++k) {
      const Val state = interface_.random ? w_.load(w_.word(call_.arguments, interface_.word_of_seed() + k)) : zero;
      set(k == 0 ? argument::kSeed : argument::kStep, state);
    }
    return values;
  }

  void call(const CpuKernelCode& code, const Pointer& buffers, const DimMath::Values& values) {
    const LoopProgram& program = code.lowered->program;
    const Pointer arguments = w_.words(static_cast<std::int64_t>(program.arguments.size()));
    for (std::size_t k = 0; k < program.arguments.size(); ++k)
      w_.store(w_.word(arguments, static_cast<std::int64_t>(k)), values.at(program.arguments[k]));
    const Pointer status = w_.words(sizeof(KernelStatus) / sizeof(Word));
    w_.store(status, w_.integer(0));
    w_.module().declare(fmt::format("declare hidden void @\"{}\"(ptr, ptr, ptr, ptr)", code.symbol));
    const auto run = [&] {
      w_.ir().line(fmt::format("call void @\"{}\"(ptr {}, ptr {}, ptr {}, ptr {})", code.symbol, buffers.text,
                               arguments.text, workspace_.text, status.text));
    };
    flushes_to_zero(*code.lowered) ? with_flush_to_zero(w_, triple_, run) : run();
    if (!program.checks.empty()) leave_where_failed(w_, call_, program.checks, status);
  }

  // ---- Partial results ----

  void combine(const LoweredKernel& kernel, const Val& chunks, const std::optional<StepValues>& at) {
    if (!kernel.chunks) return;
    for (const BufferUse& use : kernel.uses) {
      if (!use.partial) continue;
      const Pointer& partials = partials_of(kernel, use.tensor);
      w_.when(w_.is("sgt", chunks, w_.integer(1)), [&] {
        const Pointer target = target_of(kernel, use.tensor, at);
        const Val count = written_count(kernel, use.tensor);
        w_.loop(count, [&](const Val& i) { combine_element(use, partials, target, i, count, chunks); });
      });
    }
  }

  Val load_element(Scalar type, const Pointer& from) {
    return w_.ir().raw(type, 1, fmt::format("load {}, ptr {}", type_name(type, 1), from.text));
  }

  Scalar scalar_of(const std::string& tensor) const {
    return plan_.fused.program.dtype_of(tensor) == DType::f32 ? Scalar::f32 : Scalar::f64;
  }

  void add_part(const std::string& part, const Pointer& whole, const Val& adds) override {
    const Scalar type = scalar_of(part);
    const Val bytes = w_.integer(type == Scalar::f32 ? 4 : 8);
    w_.loop(math_.count(plan_.fused.program.shape_of(part)), [&](const Val& i) {
      const Pointer to = w_.offset(whole, w_.mul(i, bytes));
      const Val own = load_element(type, w_.offset(place_of(part), w_.mul(i, bytes)));
      const Val sum = w_.ir().binary("fadd", load_element(type, to), own);
      w_.store(to, w_.ir().select(adds, sum, own));
    });
  }

  /// In double, in the order of the chunks.
  void combine_element(const BufferUse& use, const Pointer& partials, const Pointer& target, const Val& i,
                       const Val& count, const Val& chunks) {
    const Scalar type = scalar_of(use.tensor);
    const Val bytes = w_.integer(type == Scalar::f32 ? 4 : 8);
    const Pointer sum = w_.words(1);
    const auto partial = [&](const Val& element) {
      const Pointer from = w_.offset(partials, w_.mul(element, bytes));
      return w_.ir().convert(load_element(type, from), Scalar::f64);
    };
    w_.store(sum, partial(i));
    w_.loop(w_.sub(chunks, w_.integer(1)), [&](const Val& c) {
      const Val next = partial(w_.add(i, w_.mul(w_.add(c, w_.integer(1)), count)));
      const Val so_far = w_.ir().raw(Scalar::f64, 1, "load double, ptr " + sum.text);
      w_.store(sum, llvm_ir::emit_function(w_.ir(), llvm_ir::folding_function(*use.partial), {so_far, next}));
    });
    const Val result = w_.ir().raw(Scalar::f64, 1, "load double, ptr " + sum.text);
    w_.store(w_.offset(target, w_.mul(i, bytes)), w_.ir().convert(result, type));
  }

  const std::vector<CpuKernelCode>& kernels_;
  std::map<const LoweredKernel*, Val> chunks_;
  const std::string_view triple_;
};

}  // namespace

std::vector<CpuKernelCode> kernel_codes(const Plan& plan, const VectorMachine& machine, const std::string& prefix) {
  std::vector<CpuKernelCode> codes;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      const std::string symbol = fmt::format("{}.{:03}.{}", prefix, codes.size(), kernel->program.name);
      codes.push_back({kernel, symbol, lanes_for(kernel->program, machine), scratch_size(kernel->program, machine)});
    }
  }
  return codes;
}

void add_cpu_driver(ModuleText& module, const Plan& plan, const Interface& interface,
                    const std::vector<CpuKernelCode>& kernels, const std::string& prefix, std::string_view triple) {
  const auto head = [&](const char* name, const char* parameters) {
    return fmt::format("define hidden i32 @\"{}.{}\"({}) nounwind", prefix, name, parameters);
  };
  CpuDriver(module, head("workspace", "ptr %arguments, ptr %bytes, ptr %message"), plan, interface, kernels, triple)
      .write_workspace();
  CpuDriver(module, head("run", "ptr %arguments, ptr %workspace, i64 %workspace_bytes, ptr %message"), plan, interface,
            kernels, triple)
      .write_run();
}

}  // namespace moxie::aot
