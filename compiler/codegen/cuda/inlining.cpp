#include "compiler/codegen/cuda/inlining.h"

#include <algorithm>
#include <map>

#include "compiler/loop/operands.h"

namespace moxie::cuda_text {
namespace {

/// Whether anything in the statement, loops included, changes what the operation reads.
bool disturbs(const LoopProgram& program, const Statement& statement, const Operation& operation) {
  if (const auto* loop = std::get_if<stmt::For>(&statement)) {
    return std::ranges::any_of(loop->body, [&](const Statement& s) { return disturbs(program, s, operation); });
  }
  if (const auto* read = std::get_if<op::ReadVar>(&operation)) {
    const auto* set = std::get_if<stmt::SetVar>(&statement);
    return set && set->var == read->var;
  }
  if (const auto* load = std::get_if<op::LoadArray>(&operation)) {
    const auto* store = std::get_if<stmt::StoreArray>(&statement);
    return store && store->array == load->array;
  }
  if (const auto* load = std::get_if<op::Load>(&operation)) {
    return program.buffers.at(load->buffer).written && std::holds_alternative<stmt::Store>(statement);
  }
  return false;
}

}  // namespace

void Inlining::count(const Block& block) {
  for (const Statement& statement : block) {
    for (const ValueId id : operands(program_, statement)) ++uses_[id];
    if (const auto* loop = std::get_if<stmt::For>(&statement)) count(loop->body);
  }
}

bool Inlining::may_move(const Block& block, std::size_t from, std::size_t to) const {
  const Operation& operation = program_.values.at(std::get<stmt::Let>(block[from]).id).operation;
  if (std::holds_alternative<op::CombineLanes>(operation)) return false;
  for (std::size_t k = from + 1; k < to; ++k) {
    if (disturbs(program_, block[k], operation)) return false;
  }
  return true;
}

/// From the last statement to the first, so that it is known where the text of a value's user ends up.
void Inlining::choose(const Block& block) {
  std::map<ValueId, std::size_t> used_at;  // the statement that the text of the value's one user is part of
  for (std::size_t k = block.size(); k-- > 0;) {
    std::size_t place = k;
    if (const auto* let = std::get_if<stmt::Let>(&block[k])) {
      const Operation& operation = program_.values.at(let->id).operation;
      const bool literal =
          std::holds_alternative<op::Constant>(operation) || std::holds_alternative<op::Number>(operation);
      const auto use = used_at.find(let->id);
      const bool once = uses_[let->id] == 1 && use != used_at.end() && may_move(block, k, use->second);
      // Subscripts are names.
      inlined_[let->id] = program_.values.at(let->id).type != ValueType::index && (literal || once);
      if (once && inlined_[let->id]) place = use->second;
    }
    for (const ValueId id : operands(program_, block[k])) used_at[id] = place;
    if (const auto* loop = std::get_if<stmt::For>(&block[k])) choose(loop->body);
  }
}

}  // namespace moxie::cuda_text
