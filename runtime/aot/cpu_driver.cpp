#include "runtime/aot/cpu_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/support/error.h"
#include "runtime/aot/call_checks.h"
#include "runtime/aot/failure_messages.h"
#include "runtime/aot/workspace.h"
#include "runtime/host_tensor.h"

namespace moxie::aot {
namespace {

using llvm_ir::Scalar;
using llvm_ir::typed;

class CpuDriver {
 public:
  CpuDriver(ModuleText& module, const std::string& head, const Plan& plan, const Interface& interface,
            const std::vector<CpuKernelCode>& kernels)
      : w_(module, head),
        plan_(plan),
        interface_(interface),
        kernels_(kernels),
        layout_(lay_out(plan)),
        call_(begin_call(w_, interface)),
        dims_(checked_dims(w_, interface, call_)),
        math_(w_, plan.fused.program, dims_) {
    measure_workspace();
  }

  void write_workspace() {
    const Pointer bytes{"%bytes"};
    w_.leave_when(w_.is_null(bytes), wrong_argument, [&] {
      complain(w_, call_.message, escaped(interface_.name) + "_workspace: nowhere to put the size: the pointer is null");
    });
    w_.store(bytes, slots_.total);
    w_.finish();
  }

  void write_run() {
    const std::vector<Pointer> addresses = checked_tensors(w_, interface_, call_, math_);
    for (std::size_t k = 0; k < addresses.size(); ++k) places_.emplace(interface_.tensors[k].name, addresses[k]);
    check_workspace(w_, interface_, call_, slots_.total);
    place_workspace();
    fill_gaps();
    for (const PlanStep& step : plan_.steps) std::visit([&](const auto& part) { write(part, {}); }, step);
    w_.finish();
  }

 private:
  const CpuKernelCode& code_of(const LoweredKernel& kernel) const {
    return *std::ranges::find(kernels_, &kernel, &CpuKernelCode::lowered);
  }

  // ---- Memory ----

  Val bytes_of(const Block& block) {
    if (!block.partial_of) return math_.bytes(block.tensor);
    const Val chunks = math_.chunks(math_.rounds(*block.partial_of->chunks));
    const Val one = written_bytes(*block.partial_of, block.tensor);
    return w_.select(w_.is("eq", chunks, w_.integer(1)), w_.integer(0), w_.saturating_mul(chunks, one));
  }

  /// What one launch writes of a tensor.
  Val written_count(const LoweredKernel& kernel, const std::string& tensor) {
    return kernel.in_scan ? math_.slice_count(tensor) : math_.count(plan_.fused.program.shape_of(tensor));
  }
  Val written_bytes(const LoweredKernel& kernel, const std::string& tensor) {
    return kernel.in_scan ? math_.slice_bytes(tensor) : math_.bytes(tensor);
  }

  void measure_workspace() {
    std::int64_t scratch = 0;
    for (const CpuKernelCode& kernel : kernels_) scratch = std::max(scratch, kernel.scratch_bytes);
    slots_ = place_slots(w_, layout_, [this](const Block& block) { return bytes_of(block); }, w_.integer(scratch));
  }

  void place_workspace() {
    scratch_ = workspace_start(w_);
    for (const Block& block : layout_.blocks) {
      const Pointer place = w_.offset(scratch_, slots_.offsets[block.slot]);
      if (block.partial_of)
        partials_.emplace(std::pair(block.partial_of, block.tensor), place);
      else
        places_.emplace(block.tensor, place);
    }
  }

  void clear(const Pointer& from, const Val& bytes) {
    w_.module().declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)");
    w_.ir().line(fmt::format("call void @llvm.memset.p0.i64(ptr {}, i8 0, {}, i1 false)", from.text, typed(bytes)));
  }

  void fill_gaps() {
    for (const Definition& definition : plan_.fused.program.definitions) {
      if (definition.output && has_gaps(plan_.fused.program, definition.name))
        clear(places_.at(definition.name), math_.bytes(definition.name));
    }
  }

  // ---- Steps ----

  void write(const MatrixProduct& product, const std::optional<Val>& /*scan_step*/) {
    throw InternalError("the plan of an AOT library leaves " + product.definition.name + " to a library");
  }

  void write(const LoweredScan& scan, const std::optional<Val>& /*scan_step*/) {
    const Val rounds = math_.extent(scan.extent);
    w_.loop(rounds, [&](const Val& round) {
      const Val step = scan.backwards ? w_.sub(w_.sub(rounds, w_.integer(1)), round) : round;
      for (const LoweredScanStep& part : scan.steps) std::visit([&](const auto& p) { write(p, step); }, part);
    });
  }

  void write(const LoweredKernel& kernel, const std::optional<Val>& scan_step) {
    const CpuKernelCode& code = code_of(kernel);
    const Val rows = kernel.chunks ? math_.rounds(*kernel.chunks) : w_.integer(0);
    const Val chunks = kernel.chunks ? math_.chunks(rows) : w_.integer(1);
    const Val is_whole = w_.is("eq", chunks, w_.integer(1));
    const Pointer buffers = w_.words(static_cast<std::int64_t>(kernel.uses.size()));
    for (std::size_t b = 0; b < kernel.uses.size(); ++b)
      w_.store(w_.word(buffers, static_cast<std::int64_t>(b)), buffer_of(kernel, kernel.uses[b], is_whole, scan_step));
    w_.loop(chunks, [&](const Val& chunk) {
      DimMath::Values values = piece_values(kernel, code.lanes, rows, chunk, chunks);
      if (scan_step) values.insert_or_assign(kScanStep, *scan_step);
      call(code, buffers, values);
    });
    combine(kernel, chunks, scan_step);
  }

  /// Where a launch leaves a tensor that chunks may share: in a scan, at the step's slice.
  Pointer target_of(const LoweredKernel& kernel, const std::string& tensor, const std::optional<Val>& scan_step) {
    const Pointer& place = places_.at(tensor);
    return kernel.in_scan ? w_.offset(place, w_.mul(*scan_step, math_.slice_bytes(tensor))) : place;
  }

  Pointer buffer_of(const LoweredKernel& kernel, const BufferUse& use, const Val& is_whole,
                    const std::optional<Val>& scan_step) {
    if (!use.partial) return places_.at(use.tensor);
    const Pointer target = target_of(kernel, use.tensor, scan_step);
    if (!kernel.chunks) return target;
    const Pointer& partials = partials_.at({&kernel, use.tensor});
    if (has_gaps(plan_.fused.program, use.tensor)) clear(partials, bytes_of(*layout_.find(use.tensor, &kernel)));
    return w_.select(is_whole, target, partials);
  }

  /// The arguments of the call for one chunk. Tiles are not shared out: results do not depend on them.
  DimMath::Values piece_values(const LoweredKernel& kernel, int lanes, const Val& rows, const Val& chunk,
                               const Val& chunks) {
    DimMath::Values values = dims_;
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
    w_.ir().line(fmt::format("call void @\"{}\"(ptr {}, ptr {}, ptr {}, ptr {})", code.symbol, buffers.text,
                             arguments.text, scratch_.text, status.text));
    if (!program.checks.empty()) leave_where_failed(w_, call_, program, status);
  }

  // ---- Partial results ----

  void combine(const LoweredKernel& kernel, const Val& chunks, const std::optional<Val>& scan_step) {
    if (!kernel.chunks) return;
    for (const BufferUse& use : kernel.uses) {
      if (!use.partial) continue;
      const Pointer& partials = partials_.at({&kernel, use.tensor});
      w_.when(w_.is("sgt", chunks, w_.integer(1)), [&] {
        const Pointer target = target_of(kernel, use.tensor, scan_step);
        const Val count = written_count(kernel, use.tensor);
        w_.loop(count, [&](const Val& i) { combine_element(use, partials, target, i, count, chunks); });
      });
    }
  }

  /// In double, in the order of the chunks.
  void combine_element(const BufferUse& use, const Pointer& partials, const Pointer& target, const Val& i,
                       const Val& count, const Val& chunks) {
    const Scalar type = plan_.fused.program.dtype_of(use.tensor) == DType::f32 ? Scalar::f32 : Scalar::f64;
    const Val bytes = w_.integer(type == Scalar::f32 ? 4 : 8);
    const Pointer sum = w_.words(1);
    const auto partial = [&](const Val& element) {
      const Pointer from = w_.offset(partials, w_.mul(element, bytes));
      return w_.ir().convert(w_.ir().raw(type, 1, fmt::format("load {}, ptr {}", type_name(type, 1), from.text)),
                             Scalar::f64);
    };
    w_.store(sum, partial(i));
    w_.loop(w_.sub(chunks, w_.integer(1)), [&](const Val& c) {
      const Val next = partial(w_.add(i, w_.mul(w_.add(c, w_.integer(1)), count)));
      const Val so_far = w_.ir().raw(Scalar::f64, 1, "load double, ptr " + sum.text);
      w_.store(sum, combined(*use.partial, so_far, next));
    });
    const Val result = w_.ir().raw(Scalar::f64, 1, "load double, ptr " + sum.text);
    w_.store(w_.offset(target, w_.mul(i, bytes)), w_.ir().convert(result, type));
  }

  Val combined(ReduceKind kind, const Val& a, const Val& b) {
    switch (kind) {
      case ReduceKind::Product:
        return w_.ir().binary("fmul", a, b);
      case ReduceKind::Max:
        return w_.select(w_.ir().fcmp("olt", a, b), b, a);
      case ReduceKind::Min:
        return w_.select(w_.ir().fcmp("olt", b, a), b, a);
      default:
        return w_.ir().binary("fadd", a, b);
    }
  }

  FunctionWriter w_;
  const Plan& plan_;
  const Interface& interface_;
  const std::vector<CpuKernelCode>& kernels_;
  const WorkspaceLayout layout_;
  const Call call_;
  const DimMath::Values dims_;
  DimMath math_;
  SlotPlaces slots_;
  Pointer scratch_;
  std::map<std::string, Pointer> places_;
  std::map<std::pair<const LoweredKernel*, std::string>, Pointer> partials_;
};

}  // namespace

std::vector<CpuKernelCode> kernel_codes(const Plan& plan, const VectorMachine& machine, const std::string& prefix) {
  std::vector<CpuKernelCode> codes;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      const std::string symbol = fmt::format("{}.{:03}.{}", prefix, codes.size(), kernel->program.name);
      codes.push_back({kernel, symbol, lanes_for(kernel->program, machine), scratch_bytes(kernel->program, machine)});
    }
  }
  return codes;
}

void add_cpu_driver(ModuleText& module, const Plan& plan, const Interface& interface,
                    const std::vector<CpuKernelCode>& kernels, const std::string& prefix) {
  const auto head = [&](const char* name, const char* parameters) {
    return fmt::format("define hidden i32 @\"{}.{}\"({}) nounwind", prefix, name, parameters);
  };
  CpuDriver(module, head("workspace", "ptr %arguments, ptr %bytes, ptr %message"), plan, interface, kernels)
      .write_workspace();
  CpuDriver(module, head("run", "ptr %arguments, ptr %workspace, i64 %workspace_bytes, ptr %message"), plan, interface,
            kernels)
      .write_run();
}

}  // namespace moxie::aot
