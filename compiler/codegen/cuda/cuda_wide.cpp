// Maps whose threads have several neighbouring elements of each sample: loads and stores of all of them at once, and
// loops over them in between.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/cuda/cuda_writer.h"
#include "compiler/codegen/cuda/wide_access.h"
#include "compiler/loop/operands.h"

namespace moxie::cuda_text {
namespace {

/// The values that statements use, loops included.
std::set<ValueId> used_by(const LoopProgram& program, std::span<const Statement> statements) {
  std::set<ValueId> used;
  const auto note = [&](const Statement& s) {
    for (const ValueId id : operands(program, s)) used.insert(id);
  };
  for (const Statement& statement : statements) {
    note(statement);
    if (const auto* loop = std::get_if<stmt::For>(&statement)) visit_statements(loop->body, note);
  }
  return used;
}

bool is_loop(const Statement& statement) { return std::holds_alternative<stmt::For>(statement); }

}  // namespace

/// Statements between loops form runs.
void CudaWriter::write_wide(const Block& block) {
  for (std::size_t begin = 0; begin < block.size();) {
    if (is_loop(block[begin])) {
      const Traced traced(*this, block[begin]);
      comment(announcement(block, begin));
      write(std::get<stmt::For>(block[begin++]));
      continue;
    }
    const auto loop = std::find_if(block.begin() + static_cast<std::ptrdiff_t>(begin), block.end(), is_loop);
    const auto end = static_cast<std::size_t>(loop - block.begin());
    const std::span<const Statement> all(block);
    write_wide_run(all.subspan(begin, end - begin), used_by(program(), all.subspan(end)));
    begin = end;
  }
}

/// What is the same for all neighbours comes first, then the loads. Values in `kept` are used by later runs.
void CudaWriter::write_wide_run(std::span<const Statement> run, const std::set<ValueId>& kept) {
  const Symbol vector = vector_->variable;
  bool varies = false;
  for (const Statement& statement : run) {
    const Traced traced(*this, statement);
    const auto* let = std::get_if<stmt::Let>(&statement);
    if (let && !program().values.at(let->id).varying)
      write(*let);
    else
      varies = true;
    if (let && program().values.at(let->id).varying) prepare_wide(let->id, kept.contains(let->id));
    if (const auto* store = std::get_if<stmt::Store>(&statement)) prepare_wide(*store);
  }
  if (!varies) return;
  line("#pragma unroll");
  open_scope(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", neighbour_, schedule_.width));
  const std::string element = names_.rename(vector, fmt::format("({} + {})", names_.symbol(vector), neighbour_));
  for (const Statement& statement : run) {
    const Traced traced(*this, statement);
    const auto* let = std::get_if<stmt::Let>(&statement);
    if (const auto* store = std::get_if<stmt::Store>(&statement))
      line(fmt::format("{}[{}] = {};", wide_stores_.at(store), neighbour_, stored_text(*store)));
    else if (!let || program().values.at(let->id).varying)
      std::visit([&](const auto& s) { write(s); }, static_cast<const Statement::variant&>(statement));
  }
  names_.rename(vector, element);
  close_scope();
  for (const Statement& statement : run) {
    const Traced traced(*this, statement);
    if (const auto* store = std::get_if<stmt::Store>(&statement)) finish_wide(*store);
  }
}

void CudaWriter::prepare_wide(ValueId id, bool kept) {
  const Value& value = program().values.at(id);
  const auto* load = std::get_if<op::Load>(&value.operation);
  const BufferDecl* source = load && !load->guard ? &program().buffers.at(load->buffer) : nullptr;
  if (source && !source->written && is_wide(*source, load->subscripts, vector_->variable, schedule_.width)) {
    const std::string name = names_.fresh(source->name + "_wide");
    line(fmt::format("const {} {} = load_wide<{}>({}, {});", wide_type(source->dtype), name, schedule_.width,
                     names_.buffer(load->buffer), offset(*source, load->subscripts)));
    wide_loads_[id] = fmt::format("{}[{}]", name, neighbour_);
  }
  if (!kept || inlining_(id)) return;
  line(fmt::format("{} {}[{}];", type_name(value.type), Names::value(id), schedule_.width));
  kept_.insert(id);
}

void CudaWriter::prepare_wide(const stmt::Store& store) {
  const BufferDecl& buffer = program().buffers.at(store.buffer);
  wide_stores_[&store] = names_.fresh(buffer.name + "_wide");
  line(fmt::format("{} {};", wide_type(buffer.dtype), wide_stores_[&store]));
}

void CudaWriter::finish_wide(const stmt::Store& store) {
  comment(kernel_.uses.at(store.buffer).source);
  const std::string condition = guard();
  line(fmt::format("{}store_wide({}, {}, {});", condition.empty() ? "" : "if (" + condition + ") ",
                   names_.buffer(store.buffer), offset(program().buffers.at(store.buffer), store.subscripts),
                   wide_stores_.at(&store)));
}

std::string CudaWriter::wide_type(DType dtype) const {
  return fmt::format("Wide<{}, {}>", type_name(dtype), schedule_.width);
}

}  // namespace moxie::cuda_text
