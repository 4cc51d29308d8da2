#include "compiler/loop/lower.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/analysis/value_range.h"
#include "compiler/fuse/fold_storage.h"
#include "compiler/fuse/shared_factor.h"
#include "compiler/loop/chunk_rows.h"
#include "compiler/loop/guards.h"
#include "compiler/loop/interleave.h"
#include "compiler/loop/lower_algebra.h"
#include "compiler/loop/lower_prefix.h"
#include "compiler/loop/lower_scatter.h"
#include "compiler/loop/nest_builder.h"
#include "compiler/loop/row_order.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// A root that accumulates, with the scratch that holds its sums until they are written.
struct Accumulator {
  const KernelRoot* root = nullptr;
  Work work;
};

/// A row that is not worth sharing out. The bounds of its loop are constants then: no round needs a mask if the lanes
/// divide the row.
bool is_short(const Range& row) {
  constexpr std::int64_t kShort = 256;
  const auto extent = known_extent(row);
  return extent && *extent <= kShort;
}

/// A row that a scatter sum adds to element by element: without AVX-512 or SVE a masked store takes longer than so many
/// plain ones (2000 terms of two elements: 20 us with a mask, 9 without, on an AMD EPYC with AVX2).
bool has_few_elements(const Range& row) {
  constexpr std::int64_t kFew = 4;
  const auto extent = known_extent(row);
  return extent && *extent <= kFew;
}

class KernelLowering {
 public:
  KernelLowering(const FusedProgram& fused, const Kernel& kernel) : fused_(fused), kernel_(kernel) {}

  LoweredKernel run() {
    declare();
    NestBuilder nest(result_.program, read_, fused_.program);
    nest.know_steps(fused_, kernel_.roots.front().definition);
    if (by_values_) nest.bound_by_values(lanes_are_threads_);
    if (is_linear_algebra(kernel_.roots.front()))
      lower_linear_algebra(nest);
    else if (kernel_.reduces_vector)
      lower_reducing_vector(nest);
    else
      lower_along_vector(nest);
    return finished();
  }

  /// Lowers a kernel whose only root is such a sum.
  LoweredKernel run_scatter(const Scatter& sum) {
    declare();
    const KernelRoot& root = kernel_.roots.front();
    const BufferId out = written_.at(root.definition.name);
    read_[root.definition.name] = out;
    NestBuilder nest(result_.program, read_, fused_.program);
    nest.know_steps(fused_, kernel_.roots.front().definition);
    ScatterLoops loops = scatter_loops(root, sum);
    if (loops.lanes) loops.vector->range = split(nest, *kernel_.vector, false, true);
    loops.rows.range = split(nest, *kernel_.sample, true, false);
    result_.chunks->repeats_work = true;
    lower_scatter(nest, root, out, sum, loops);
    return finished();
  }

  /// Reductions over ranges by data run through these alone. Where the ranges differ along the vector loop, it has no
  /// lanes.
  LoweredKernel run_by_values() {
    lanes_ = !ranges_differ_in_lanes();
    by_values_ = true;
    return run();
  }

  /// The same where each lane is a thread, which has ends of its own.
  LoweredKernel run_by_values_of_threads() {
    by_values_ = lanes_are_threads_ = true;
    return run();
  }

  /// Of a kernel that in_rows() gave.
  LoweredKernel run_in_rows() {
    declare();
    NestBuilder nest(result_.program, read_, fused_.program);
    nest.know_steps(fused_, kernel_.roots.front().definition);
    lower_in_rows(nest);
    return finished();
  }

 private:
  bool ranges_differ_in_lanes() const {
    if (!kernel_.vector || kernel_.reduces_vector) return false;
    bool differ = false;
    for (const KernelRoot& root : kernel_.roots) {
      visit(root.body, [&](const Expr& e) {
        const auto ranged = ranged_reduce(fused_.program, e);
        const auto differs = [&](const Expr& bound) { return bound->depends_on(kernel_.vector->symbol); };
        differ |= ranged && std::ranges::any_of(ranged->range.bounds, differs);
      });
    }
    return differ;
  }

  /// The vector loop is the innermost one, unless the range of another depends on its index.
  ScatterLoops scatter_loops(const KernelRoot& root, const Scatter& sum) const {
    ScatterLoops loops{kernel_.vector, false, *kernel_.sample, root.locals};
    if (!kernel_.vector) return loops;
    const Symbol vector = kernel_.vector->symbol;
    const auto depends = [&](const auto& loop) { return mentions(loop.range, vector); };
    const auto inner = std::ranges::find_if(loops.others, depends);
    if (inner != loops.others.end() || std::ranges::any_of(sum.loops, depends)) {
      loops.others.insert(inner, *loops.vector);
      loops.vector.reset();
    }
    loops.lanes = loops.vector && !has_few_elements(loops.vector->range);
    return loops;
  }

  LoweredKernel finished() {
    if (result_.chunks) result_.chunks->least_rows = least_chunk_rows(result_);
    verify(result_.program);
    return std::move(result_);
  }

  void declare() {
    LoopProgram& program = result_.program;
    program.name = kernel_name(kernel_.name);
    program.precision = fused_.program.precision;
    result_.in_scan = kernel_.roots.front().definition.scan.has_value();
    std::set<std::string> read;
    for (const KernelRoot& root : kernel_.roots) {
      program.comments.push_back(definition_comment(root.definition, fused_.program));
      visit(root.body, [&](const Expr& e) {
        if (e->kind == NodeKind::Access) read.insert(e->tensor);
      });
    }
    for (const std::string& name : read) read_[name] = add_buffer(name, nullptr);
    for (const KernelRoot& root : kernel_.roots)
      written_[root.definition.name] = add_buffer(root.definition.name, &root);
    program.arguments = kernel_arguments(fused_.program, result_.in_scan ? scan_arguments() : std::set<std::string>());
  }

  /// The step, and where folded tensors have theirs.
  std::set<std::string> scan_arguments() const {
    std::set<std::string> arguments = {kScanStep};
    for (const KernelRoot& root : kernel_.roots) {
      arguments.merge(folded_steps_in(root.body));
      const auto written = root.subscripts.front().as_symbol();
      if (written && folded_step(written->name())) arguments.insert(written->name());
    }
    return arguments;
  }

  BufferId add_buffer(const std::string& tensor, const KernelRoot* writer) {
    BufferDecl buffer = declare_buffer(fused_, tensor);
    buffer.written = writer != nullptr;
    BufferUse use{tensor, buffer.written, std::nullopt, writer ? cite(writer->definition) : ""};
    if (writer && writer->accumulate) {
      use.partial = writer->accumulate;
      if (result_.in_scan) {  // the chunks take the place of the steps
        buffer.shape.front() = Symbol::dim(argument::kChunks);
      } else {
        add_chunk_axis(buffer);
      }
    }
    result_.program.buffers.push_back(std::move(buffer));
    result_.uses.push_back(std::move(use));
    return static_cast<BufferId>(result_.uses.size() - 1);
  }

  Range split(NestBuilder& nest, const LoopIndex& loop, bool chunked, bool over_lanes) {
    auto& slot = chunked ? result_.chunks : result_.tiles;
    const char* low = chunked ? argument::kChunkLow : argument::kTileLow;
    const char* high = chunked ? argument::kChunkHigh : argument::kTileHigh;
    slot = SplitLoop{loop.range, low, high, over_lanes};
    const Range piece = Range::half_open(Symbol::dim(low), Symbol::dim(high));
    nest.know_piece(piece, loop.range);
    return piece;
  }

  ValueType type_of(const KernelRoot& root) const { return value_type(root.definition.dtype); }

  std::vector<Affine> with_chunk(std::vector<Affine> subscripts) const {
    const Affine chunk(Symbol::dim(argument::kChunk));
    if (result_.in_scan)
      subscripts.front() = chunk;
    else
      subscripts.insert(subscripts.begin(), chunk);
    return subscripts;
  }

  Expr guarded_body(const KernelRoot& root) const {
    IndexDomain domain({});
    for (const auto& shared : {kernel_.vector, kernel_.sample}) {
      if (shared) domain.add_range(shared->symbol, shared->range);
    }
    for (const LoopIndex& local : root.locals) domain.add_range(local.symbol, local.range);
    return guard_accesses(root.body, fused_, root.definition, std::move(domain));
  }

  Work map_work(const KernelRoot& root, std::vector<LoopIndex> loops) const {
    return {Work::Target::Buffer, written_.at(root.definition.name),
            root.subscripts,      std::nullopt,
            type_of(root),        guarded_body(root),
            std::move(loops),     cite(root.definition)};
  }

  /// The vector loop runs over an axis of every root; the sample loop lies inside it, so that sums over samples stay in
  /// registers and scratch.
  void lower_along_vector(NestBuilder& nest) {
    if (kernel_.vector)
      nest.open_loop(kernel_.vector->symbol, split(nest, *kernel_.vector, false, true), kernel_.vector->name,
                     {.vector = lanes_, .parallel = !lanes_});
    std::optional<LoopIndex> sample = kernel_.sample;
    if (sample) sample->range = split(nest, *kernel_.sample, true, false);
    std::vector<Work> works;
    std::vector<Accumulator> accumulators;
    for (const KernelRoot& root : kernel_.roots) {
      std::vector<LoopIndex> loops = root.locals;
      if (sample) loops.insert(loops.begin(), *sample);
      if (!root.accumulate) {
        works.push_back(map_work(root, loops));
        continue;
      }
      accumulators.push_back(open_accumulator(nest, root, kernel_.vector && lanes_));
      works.push_back(accumulators.back().work);
      works.back().loops = std::move(loops);
    }
    nest.build(std::move(works));
    for (const Accumulator& accumulator : accumulators) write_out(nest, accumulator, false);
    if (kernel_.vector) nest.close_loop();
  }

  /// The roots sum over the vector loop: every lane keeps sums of its own, which are combined behind the loop.
  void lower_reducing_vector(NestBuilder& nest) {
    std::vector<Work> works;
    std::vector<Accumulator> accumulators;
    for (const KernelRoot& root : kernel_.roots) {
      std::vector<LoopIndex> loops = root.locals;
      if (kernel_.sample) loops.insert(loops.begin(), *kernel_.sample);
      if (!root.accumulate) {
        works.push_back(map_work(root, loops));
        continue;
      }
      accumulators.push_back(open_accumulator(nest, root, true));
      works.push_back(accumulators.back().work);
      works.back().loops = std::move(loops);
    }
    nest.open_loop(kernel_.vector->symbol, split(nest, *kernel_.vector, true, true), kernel_.vector->name,
                   {.vector = true});
    nest.build(std::move(works));
    nest.close_loop();
    for (const Accumulator& accumulator : accumulators) write_out(nest, accumulator, true);
  }

  /// The vector loop lies inside all others; sums over samples stand in scratch, one for each element.
  void lower_in_rows(NestBuilder& nest) {
    row_ = kernel_.vector;
    if (!is_short(row_->range)) row_->range = split(nest, *kernel_.vector, false, true);
    nest.choose_lanes();
    row_->lanes = true;
    LoopIndex sample = *kernel_.sample;
    sample.range = split(nest, *kernel_.sample, true, false);
    std::vector<Work> works;
    std::vector<Accumulator> accumulators;
    for (const KernelRoot& root : kernel_.roots) {
      std::vector<LoopIndex> loops = {sample};
      loops.insert(loops.end(), root.locals.begin(), root.locals.end());
      loops.push_back(*row_);
      if (!root.accumulate) {
        works.push_back(map_work(root, std::move(loops)));
        continue;
      }
      accumulators.push_back(open_accumulator(nest, root, false));
      works.push_back(accumulators.back().work);
      works.back().loops = std::move(loops);
    }
    nest.build(std::move(works));
    for (const Accumulator& accumulator : accumulators) write_out(nest, accumulator, false);
  }

  /// Scratch for the sums of one root, set to the neutral element.
  Accumulator open_accumulator(NestBuilder& nest, const KernelRoot& root, bool varying) {
    Accumulator accumulator;
    accumulator.root = &root;
    Work& work = accumulator.work;
    work = {Work::Target::Var, 0, {}, root.accumulate, type_of(root), guarded_body(root), {}, cite(root.definition)};
    const ValueId neutral = nest.neutral(*root.accumulate, work.type);
    std::vector<LoopIndex> own = own_loops(root);
    if (own.empty()) {
      work.id = nest.new_var(work.type, varying);
      nest.append(stmt::SetVar{work.id, neutral});
      return accumulator;
    }
    std::vector<Affine> extents;
    for (const LoopIndex& loop : own) {
      extents.emplace_back(box_extent(root, loop));
      work.subscripts.emplace_back(loop.symbol);
    }
    work.target = Work::Target::Array;
    work.id = nest.new_array(root.definition.name, work.type, std::move(extents), varying);
    over_loops(nest, own, "sums start: " + work.source,
               [&] { nest.append(stmt::StoreArray{work.id, resolved(nest, work.subscripts), neutral}); });
    return accumulator;
  }

  void write_out(NestBuilder& nest, const Accumulator& accumulator, bool across_lanes) {
    const KernelRoot& root = *accumulator.root;
    const Work& work = accumulator.work;
    over_loops(nest, own_loops(root), work.source, [&] {
      const bool varying = row_ || (work.target == Work::Target::Var ? result_.program.vars[work.id].varying
                                                                     : result_.program.arrays[work.id].varying);
      Operation read = op::ReadVar{work.id};
      if (work.target == Work::Target::Array) read = op::LoadArray{work.id, resolved(nest, work.subscripts)};
      ValueId value = nest.emit_operation(std::move(read), work.type, varying);
      if (across_lanes) value = nest.emit_operation(op::CombineLanes{*root.accumulate, value}, work.type, false);
      nest.append(stmt::Store{written_.at(root.definition.name), resolved(nest, with_chunk(root.subscripts)), value});
    });
  }

  /// The loops of an accumulating root's axes that are not open already: over all of its elements, in their own order.
  std::vector<LoopIndex> own_loops(const KernelRoot& root) const {
    const auto is_shared = [&](const std::optional<LoopIndex>& loop, const Affine& subscript) {
      return loop && subscript == Affine(loop->symbol);
    };
    const auto lookup = [&](Symbol symbol) {
      return symbol.kind() == Symbol::Kind::Axis ? &root.subscripts.at(symbol.number()) : nullptr;
    };
    std::vector<LoopIndex> loops;
    if (kernel_.reduces_vector && kernel_.sample) loops.push_back(*kernel_.sample);
    for (std::size_t k = 0; k < root.subscripts.size(); ++k) {
      const auto symbol = root.subscripts[k].as_symbol();
      if (!symbol || symbol->is_dim() || is_shared(kernel_.vector, root.subscripts[k]) ||
          is_shared(kernel_.sample, root.subscripts[k]))
        continue;
      const AxisDecl& axis = root.definition.axes[k];
      loops.push_back({*symbol, axis.range.substitute(lookup), axis.name});
    }
    if (row_) loops.push_back(*row_);
    return loops;
  }

  std::int64_t box_extent(const KernelRoot& root, const LoopIndex& loop) const {
    for (std::size_t k = 0; k < root.subscripts.size(); ++k) {
      if (root.subscripts[k] == Affine(loop.symbol)) {
        const Affine& extent = root.definition.axes[k].extent;
        if (extent.is_constant()) return extent.constant();
      }
    }
    throw CompileError("the sum " + root.definition.name +
                       " keeps one value per element of an axis whose extent is not known when compiling; "
                       "make that dim static");
  }

  template <class Body>
  void over_loops(NestBuilder& nest, const std::vector<LoopIndex>& loops, const std::string& comment,
                  const Body& body) const {
    for (const LoopIndex& loop : loops) {
      const bool outermost = &loop == &loops.front();
      nest.open_loop(loop.symbol, loop.range, loop.name,
                     {.vector = loop == row_, .parallel = true, .comment = outermost ? comment : ""});
    }
    body();
    for (std::size_t k = 0; k < loops.size(); ++k) nest.close_loop();
  }

  static std::vector<Affine> resolved(const NestBuilder& nest, const std::vector<Affine>& subscripts) {
    std::vector<Affine> result;
    for (const Affine& subscript : subscripts) result.push_back(nest.resolve(subscript));
    return result;
  }

  void lower_linear_algebra(NestBuilder& nest) {
    std::optional<LoopIndex> vector = kernel_.vector;
    if (vector) vector->range = split(nest, *kernel_.vector, false, true);
    std::vector<AlgebraResult> results;
    for (const KernelRoot& root : kernel_.roots) results.push_back({&root, written_.at(root.definition.name)});
    lower_algebra(nest, result_.program, results, vector, kernel_.sample);
  }

  const FusedProgram& fused_;
  const Kernel& kernel_;
  LoweredKernel result_;
  bool by_values_ = false, lanes_are_threads_ = false;
  bool lanes_ = true;             // of the loop that is the vector loop elsewhere
  std::optional<LoopIndex> row_;  // the vector loop, where it is the innermost
  /// Of a scan's tensor, a kernel may write one step and read another: two buffers over the same memory.
  std::map<std::string, BufferId> read_, written_;
};

}  // namespace

std::vector<std::string> kernel_arguments(const Program& program, const std::set<std::string>& of_scan) {
  std::vector<std::string> names;
  for (const DimDecl& dim : program.dims) {
    if (dim.dynamic) names.push_back(dim.name);
  }
  names.insert(names.end(), of_scan.begin(), of_scan.end());
  names.insert(names.end(), {argument::kChunk, argument::kChunks, argument::kTileLow, argument::kTileHigh,
                             argument::kChunkLow, argument::kChunkHigh, argument::kSeed, argument::kStep});
  return names;
}

std::string cite(const Definition& definition) {
  return definition.line > 0 ? definition.name + " (line " + std::to_string(definition.line) + ")" : definition.name;
}

std::string definition_comment(const Definition& definition, const Program& program) {
  const std::string line = definition.line > 0 ? "line " + std::to_string(definition.line) + ": " : "";
  return line + definition.name + " = " + print(definition.body, program, definition.axes);
}

std::string kernel_name(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return "k_" + name;
}

BufferDecl declare_buffer(const FusedProgram& fused, const std::string& tensor) {
  BufferDecl buffer{tensor, fused.program.dtype_of(tensor), fused.program.shape_of(tensor), {}, false};
  const auto layout = fused.layouts.find(tensor);
  for (std::uint32_t k = 0; k < buffer.shape.size(); ++k)
    buffer.layout.push_back(layout == fused.layouts.end() ? k : layout->second[k]);
  return buffer;
}

void add_chunk_axis(BufferDecl& buffer) {
  buffer.shape.insert(buffer.shape.begin(), Symbol::dim(argument::kChunks));
  for (std::uint32_t& axis : buffer.layout) ++axis;
  buffer.layout.insert(buffer.layout.begin(), 0);
}

LoweredKernel lower(const FusedProgram& fused, const Kernel& kernel) {
  if (kernel.roots.front().prefix) return lower_prefix(fused, kernel);
  LoweredKernel lowered = KernelLowering(fused, kernel).run();
  interleave(lowered.program);
  if (const auto sum = scatter_of(fused.program, kernel)) {
    LoweredKernel scatter = KernelLowering(fused, kernel).run_scatter(*sum);
    scatter.threads = LoweredKernel::ForThreads{std::move(lowered.program), std::move(lowered.tiles)};
    return scatter;
  }
  const auto is_ranged = [&](const KernelRoot& root) { return has_ranged_reduce(fused.program, root.body); };
  if (std::ranges::any_of(kernel.roots, is_ranged)) {
    LoweredKernel by_values = KernelLowering(fused, kernel).run_by_values();
    interleave(by_values.program);
    by_values.threads = LoweredKernel::ForThreads{std::move(lowered.program), std::move(lowered.tiles)};
    return by_values;
  }
  const auto walk = in_rows(kernel);
  if (!walk) return lowered;
  LoweredKernel in_rows = KernelLowering(fused, *walk).run_in_rows();
  interleave(in_rows.program);
  in_rows.threads = LoweredKernel::ForThreads{std::move(lowered.program), std::move(lowered.tiles)};
  return in_rows;
}

std::optional<LoweredKernel> lower_ranges_of_threads(const FusedProgram& fused, const Kernel& kernel) {
  const auto is_ranged = [&](const KernelRoot& root) { return has_ranged_reduce(fused.program, root.body); };
  if (kernel.roots.front().prefix || !kernel.vector || kernel.reduces_vector || scatter_of(fused.program, kernel) ||
      std::ranges::none_of(kernel.roots, is_ranged))
    return std::nullopt;
  return KernelLowering(fused, kernel).run_by_values_of_threads();
}

LoweredKernel for_threads(LoweredKernel kernel) {
  if (!kernel.threads) return kernel;
  kernel.program = std::move(kernel.threads->program);
  kernel.tiles = std::move(kernel.threads->tiles);
  kernel.threads.reset();
  return kernel;
}

LoweredScan lower(const FusedProgram& fused, const ScanLoop& scan) {
  LoweredScan lowered{scan.name, scan.extent, scan.backwards, {}};
  for (const ScanStep& step : scan.steps) {
    if (const auto* kernel = std::get_if<Kernel>(&step))
      lowered.steps.emplace_back(lower(fused, *kernel));
    else if (const auto* call = std::get_if<AlgebraCall>(&step))
      lowered.steps.emplace_back(*call);
    else
      lowered.steps.emplace_back(std::get<MatrixProduct>(step));
  }
  return lowered;
}

}  // namespace moxie
