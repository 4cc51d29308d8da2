// The head of an entry point: which thread this is, sizes of tensors, scratch, and tables staged in shared memory.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/codegen/cuda/cuda_writer.h"

namespace moxie::cuda_text {

void CudaWriter::write_head() {
  comment("this thread, the tensors' extents, and scratch");
  if (schedule_.lanes > 1) line("const int lane = threadIdx.x;");
  if (schedule_.rows > 1) line("const int row = threadIdx.y;");
  if (schedule_.mapping != CudaMapping::team && schedule_.mapping != CudaMapping::search &&
      (schedule_.rows > 1 || schedule_.spread)) {
    line(fmt::format("const bool first_row = {};",
                     schedule_.spread ? "threadIdx.y == 0 && blockIdx.y == 0" : "row == 0"));
  }
  if (schedule_.mapping == CudaMapping::search)
    line(fmt::format("const Index chunk = blockIdx.y * {0} + row, chunks = gridDim.y * {0};", schedule_.rows));
  else if (kernel_.chunks)
    line("const Index chunk = blockIdx.y, chunks = gridDim.y;");
  else if (shape_.has_partials)
    line("const Index chunk = 0, chunks = 1;");
  if (shape_.draws_random) line("const RandomState random_state = random[0];");
  for (BufferId b = 0; b < program().buffers.size(); ++b)
    line(fmt::format("EXTENT({}, {});", names_.buffer(b), element_count(b)));
  declare_scratch();
  declare_arrays();
  declare_vars();
  if (schedule_.mapping == CudaMapping::search) declare_rows();
}

/// The rows of this warp, and all elements of the vector loop, by the names that the loops have for them.
void CudaWriter::declare_rows() {
  const auto [low, high] = write_chunk_bounds("rows", kernel_.chunks->range);
  names_.rename(Symbol::dim(argument::kChunkLow), low);
  names_.rename(Symbol::dim(argument::kChunkHigh), high);
  if (!kernel_.tiles) return;
  const std::string begin = names_.fresh("elements_low"), end = names_.fresh("elements_high");
  line(fmt::format("const Index {} = {}, {} = {} + 1;", begin, first(kernel_.tiles->range), end,
                   extreme(kernel_.tiles->range.highs, false)));
  names_.rename(Symbol::dim(argument::kTileLow), begin);
  names_.rename(Symbol::dim(argument::kTileHigh), end);
}

/// Those that cannot be declared where they are set.
void CudaWriter::declare_vars() {
  std::set<VarId> declared;
  for (const stmt::SetVar* set : first_sets_) declared.insert(set->var);
  for (VarId v = 0; v < program().vars.size(); ++v) {
    if (!declared.contains(v)) line(fmt::format("{} {};", type_name(program().vars[v].type), Names::var(v)));
  }
}

/// Declares, for each array whose size depends on dims, its bytes and where it begins in the workspace of a block.
/// Returns the bytes of a block's workspace.
std::string CudaWriter::declare_blocks() {
  const ScratchSize& workspace = schedule_.workspace;
  std::string end = fmt::format("{}LL", workspace.fixed_bytes);
  for (std::size_t k = 0; k < workspace.blocks.size(); ++k) {
    const ScratchBlock& block = workspace.blocks[k];
    std::string bytes = fmt::format("{}LL", block.element_bytes);
    for (const Affine& extent : block.extents)
      bytes += fmt::format(" * greatest(0LL, (long long)({}))", affine(extent));
    line(fmt::format("const long long scratch_at{0} = {1}, scratch_bytes{0} = {2};", k, end, bytes));
    end = fmt::format("scratch_at{0} + (scratch_bytes{0} + {1}) / {2} * {2}", k, ScratchSize::kBlockAlignment - 1,
                      ScratchSize::kBlockAlignment);
  }
  return "(" + end + ")";
}

void CudaWriter::declare_arrays() {
  const ScratchSize& workspace = schedule_.workspace;
  if (!workspace.is_empty()) {
    std::string bytes = std::to_string(workspace.fixed_bytes);
    if (!workspace.blocks.empty()) bytes = declare_blocks();
    line(fmt::format("const long long block_byte = (blockIdx.y * (long long)gridDim.x + blockIdx.x) * {};", bytes));
  }
  std::int64_t offset = 0;
  std::size_t block = 0;
  for (ArrayId a = 0; a < program().arrays.size(); ++a) {
    const ArrayDecl& array = program().arrays[a];
    const std::string type = type_name(array.dtype);
    if (!std::ranges::all_of(array.extents, &Affine::is_constant)) {
      line(fmt::format("const auto {0} = slice<{1}>(workspace, block_byte + scratch_at{2}, scratch_bytes{2} / {3});",
                       names_.array(a), type, block, bytes_of(array.dtype)));
      ++block;
      continue;
    }
    // One element where there is none, such as for the pairs of a single unit: C++ has no arrays of length 0.
    std::int64_t count = 1;
    for (const Affine& extent : array.extents) count *= extent.constant();
    count = std::max<std::int64_t>(count, 1);
    if (schedule_.arrays[a] == ArrayPlace::registers) {
      line(fmt::format("{} {}[{}];", type, names_.array(a), count));
      continue;
    }
    count *= shape_.arrays[a].per_thread ? schedule_.lanes * schedule_.rows : array.varying ? schedule_.lanes : 1;
    if (schedule_.arrays[a] == ArrayPlace::shared) {
      line(fmt::format("SHARED({}, {}, {});", type, names_.array(a), count));
      continue;
    }
    line(fmt::format("const auto {} = slice<{}>(workspace, block_byte + {}, {});", names_.array(a), type, offset,
                     count));
    const std::int64_t bytes = count * bytes_of(array.dtype);
    offset += (bytes + 15) / 16 * 16;
  }
}

/// For combinations over rows or lanes.
void CudaWriter::declare_scratch() {
  std::set<ValueType> rows, lanes;
  visit_statements(program().body, [&](const Statement& s) {
    if (const auto* store = std::get_if<stmt::Store>(&s); store && kernel_.uses[store->buffer].partial)
      rows.insert(program().values.at(store->value).type);
    const auto* let = std::get_if<stmt::Let>(&s);
    if (let && std::holds_alternative<op::CombineLanes>(program().values.at(let->id).operation))
      lanes.insert(program().values.at(let->id).type);
  });
  const auto suffix = [](ValueType type) { return type == ValueType::f32 ? "f32" : "f64"; };
  if (schedule_.rows > 1 && shape_.combines_rows()) {
    for (const ValueType type : rows)
      line(
          fmt::format("SHARED({}, rows_{}, {});", type_name(type), suffix(type), 2 * schedule_.lanes * schedule_.rows));
    line("int turn = 0;");
  }
  for (const auto& [loop, reduction] : shape_.reductions) {
    for (const Accumulation& sum : reduction.sums) lanes.insert(program().vars.at(sum.var).type);
  }
  if (schedule_.lanes > 32 && (shape_.lanes_reduce || schedule_.mapping == CudaMapping::team)) {
    for (const ValueType type : lanes)
      line(fmt::format("SHARED({}, lanes_{}, {});", type_name(type), suffix(type), (schedule_.lanes + 31) / 32));
  }
}

/// Stands where the variable of the vector loop is known. In a table, element i * lanes + lane is that whose places on
/// the other axes count to i.
void CudaWriter::stage_tables() {
  if (!schedule_.staged.empty()) comment("tables that every round reads, in shared memory");
  for (const BufferId id : schedule_.staged) {
    const BufferDecl& buffer = program().buffers.at(id);
    const std::size_t axis = lane_axis(program(), id, vector_->variable);
    std::int64_t count = 1;
    for (std::size_t k = 0; k < buffer.shape.size(); ++k) count *= k == axis ? 1 : buffer.shape[k].constant();
    const std::string name = names_.fresh(buffer.name + "_table");
    const std::string step = stride(buffer.shape, buffer.layout, axis), extent = affine(buffer.shape[axis]),
                      index = names_.symbol(vector_->variable);
    line(fmt::format("SHARED({}, {}, {});", type_name(buffer.dtype), name, count * schedule_.lanes));
    open_scope(fmt::format("for (int place = {}; place < {}; place += {}) {{", schedule_.rows > 1 ? "row" : "0", count,
                           schedule_.rows));
    const std::string element =
        step == "1" ? fmt::format("place * ({}) + {}", extent, index)
                    : fmt::format("place / ({0}) * (({0}) * ({1})) + {2} * ({0}) + place % ({0})", step, extent, index);
    line(fmt::format("{}[place * {} + lane] = {}[{}];", name, schedule_.lanes, names_.buffer(id), element));
    close_scope();
    tables_[id] = name;
  }
  if (!schedule_.staged.empty()) barrier();
}

}  // namespace moxie::cuda_text
