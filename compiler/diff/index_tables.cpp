#include "compiler/diff/index_tables.h"

#include <algorithm>
#include <set>

#include "compiler/diff/open_definition.h"
#include "compiler/diff/program_builder.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

/// From about one exponential on, a function is worth a table.
constexpr int kTabledCost = 8;

bool is_costly_function_of_indices(const Expr& expr) {
  bool is_of_indices = expr->kind == NodeKind::Call, is_costly = false;
  visit(expr, [&](const Expr& e) {
    is_costly |= e->kind == NodeKind::Call && e->function->cost >= kTabledCost;
    is_of_indices &= e->kind == NodeKind::Call || e->kind == NodeKind::Constant || e->kind == NodeKind::IndexValue;
  });
  return is_of_indices && is_costly;
}

class IndexTables {
 public:
  IndexTables(const Program& program, const ActiveTensors& active) : active_(active), builder_(program) {
    Program kept = program;
    kept.definitions.clear();
    builder_ = ProgramBuilder(std::move(kept));
    for (const Definition& definition : program.definitions) builder_.reserve(definition.name);
  }

  /// Tables read nothing, and come before all else: also before the scans of which a definition reads them.
  Program run(const Program& program) {
    std::vector<Definition> definitions = program.definitions;
    for (Definition& definition : definitions) {
      if (active_.contains(definition.name)) definition.body = with_tables(definition);
    }
    for (Definition& definition : definitions) builder_.add_definition(std::move(definition));
    return builder_.take();
  }

 private:
  Expr with_tables(const Definition& definition) {
    const OpenDefinition open = open_definition(definition);
    reader_ = &definition;
    names_ = names_of(definition, open);
    moved_.clear();
    note_moved(open.body);
    return substitute(walk(open.body, open.domain, computed_dtype(definition.dtype)), closing_of(open));
  }

  /// Notes the variables that stand beside others in a subscript of what has a derivative: one of them is going to be
  /// what the others leave.
  void note_moved(const Expr& expr) {
    visit(expr, [&](const Expr& e) {
      if (e->kind != NodeKind::Access || !active_.contains(e->tensor)) return;
      for (const Affine& subscript : e->subscripts) {
        std::vector<Symbol> variables;
        for (const auto& [symbol, coefficient] : subscript.terms()) {
          if (symbol.kind() == Symbol::Kind::Free) variables.push_back(symbol);
        }
        if (variables.size() > 1) moved_.insert(variables.begin(), variables.end());
      }
    });
  }

  /// What stands below a choice may have no value elsewhere, and stays there.
  Expr walk(const Expr& expr, const IterationDomain& domain, DType dtype) {
    if (is_call(expr, "where")) return expr;
    if (is_costly_function_of_indices(expr)) return table_of(expr, domain, dtype);
    if (expr->kind == NodeKind::LinearAlgebra) return expr;
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = moxie::open(expr);
      note_moved(opened.body);
      const IterationDomain inside = extended(domain, opened.index, opened.range);
      return map_opened(expr, opened, [&](const Expr& child) { return walk(child, inside, dtype); });
    }
    for (const DType other : {DType::f32, DType::f64}) {
      if (is_call(expr, to_string(other))) dtype = other;
    }
    return map_children(expr, [&](const Expr& child) { return walk(child, domain, dtype); });
  }

  /// An access to the table, or the function itself where a table is not smaller than the loops around it.
  Expr table_of(const Expr& function, const IterationDomain& domain, DType dtype) {
    const std::vector<Symbol> variables = variables_of(function, domain);
    const bool is_smaller = !variables.empty() && variables.size() < domain.variables.size();
    const bool is_moved = std::ranges::any_of(variables, [&](Symbol v) { return moved_.contains(v); });
    const bool is_box = std::ranges::all_of(variables, [&](Symbol v) { return has_own_range(v, domain); });
    const auto boxes = is_smaller && is_moved && is_box ? boxes_of(domain, variables) : std::nullopt;
    if (!boxes) return function;
    const auto axes = as_axes(builder_, variables, *boxes, names_);
    return builder_.add_let({reader_->name + ".table", dtype, reader_->line}, axes, function);
  }

  const ActiveTensors& active_;
  ProgramBuilder builder_;
  const Definition* reader_ = nullptr;
  std::vector<std::pair<Symbol, std::string>> names_;
  std::set<Symbol> moved_;
};

}  // namespace

Program lift_index_tables(const Program& program, const ActiveTensors& active) {
  return IndexTables(program, active).run(program);
}

}  // namespace moxie
