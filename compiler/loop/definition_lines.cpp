// Which definitions the statements of a kernel are part of: what is stored says so, and every value that flows there.
#include <algorithm>
#include <set>
#include <utility>

#include "compiler/loop/operands.h"
#include "compiler/loop/statement_lines.h"

namespace moxie {
namespace {

class DefinitionFlow {
 public:
  explicit DefinitionFlow(const LoweredKernel& kernel)
      : program_(kernel.program),
        lines_(statement_lines(program_)),
        values_(program_.values.size()),
        vars_(program_.vars.size()),
        arrays_(program_.arrays.size()) {
    for (const BufferUse& use : kernel.uses) buffers_.push_back(definition_of(use.tensor));
  }

  LineTable table() {
    // What a later round of a loop reads flows back to what an earlier one wrote.
    while (std::exchange(changed_, false)) flow(program_.body);
    LineTable table(static_cast<std::size_t>(count_lines(print(program_))));
    for (std::size_t k = 0; k < program_.comments.size(); ++k) table[k] = {static_cast<int>(k) + 1};
    write(program_.body, table);
    return table;
  }

 private:
  using Definitions = std::set<int>;

  /// Comments read `line 7: y = ...` or `y = ...`.
  Definitions definition_of(const std::string& tensor) const {
    for (std::size_t k = 0; k < program_.comments.size(); ++k) {
      const std::string& comment = program_.comments[k];
      const std::size_t equals = std::min(comment.find(" = "), comment.size());
      const std::size_t begin = comment.rfind(' ', equals == 0 ? 0 : equals - 1) + 1;
      if (comment.substr(begin, equals - begin) == tensor) return {static_cast<int>(k) + 1};
    }
    return {};
  }

  void add(Definitions& to, const Definitions& more) {
    const std::size_t before = to.size();
    to.insert(more.begin(), more.end());
    changed_ = changed_ || to.size() != before;
  }

  /// From the last statement to the first, since definitions flow from what uses a value to what computes it.
  void flow(const Block& block) {
    for (auto statement = block.rbegin(); statement != block.rend(); ++statement) {
      if (const auto* loop = std::get_if<stmt::For>(&*statement)) flow(loop->body);
      const Definitions& part_of = definitions(*statement);
      for (const ValueId id : operands(program_, *statement)) add(values_.at(id), part_of);
      const auto* let = std::get_if<stmt::Let>(&*statement);
      if (!let) continue;
      const Operation& operation = program_.values.at(let->id).operation;
      if (const auto* read = std::get_if<op::ReadVar>(&operation)) add(vars_.at(read->var), part_of);
      if (const auto* load = std::get_if<op::LoadArray>(&operation)) add(arrays_.at(load->array), part_of);
    }
  }

  const Definitions& definitions(const Statement& statement) const {
    static const Definitions none;
    if (const auto* let = std::get_if<stmt::Let>(&statement)) return values_.at(let->id);
    if (const auto* set = std::get_if<stmt::SetVar>(&statement)) return vars_.at(set->var);
    if (const auto* store = std::get_if<stmt::Store>(&statement)) return buffers_.at(store->buffer);
    if (const auto* store = std::get_if<stmt::StoreArray>(&statement)) return arrays_.at(store->array);
    return none;
  }

  /// A loop is part of what its statements are part of.
  Definitions write(const Block& block, LineTable& table) {
    Definitions all;
    for (const Statement& statement : block) {
      const auto* loop = std::get_if<stmt::For>(&statement);
      const Definitions here = loop ? write(loop->body, table) : definitions(statement);
      all.insert(here.begin(), here.end());
      if (const auto line = lines_.find(&statement); line != lines_.end())
        table[static_cast<std::size_t>(line->second) - 1].assign(here.begin(), here.end());
    }
    return all;
  }

  const LoopProgram& program_;
  StatementLines lines_;
  std::vector<Definitions> values_, vars_, arrays_, buffers_;
  bool changed_ = true;
};

}  // namespace

LineTable definition_lines(const LoweredKernel& kernel) { return DefinitionFlow(kernel).table(); }

}  // namespace moxie
