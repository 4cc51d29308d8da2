#include <algorithm>

#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// A new definition for `expr`, put before the current one; the access that stands for it.
Expr extract(Program& program, std::vector<Definition>& before, const Definition& user, const Expr& expr, const Scope& scope) {
  const std::vector<Symbol> symbols = open_symbols_of(expr, scope);
  NewAxes axes = make_axes(program, scope, symbols);
  Definition part;
  part.name = unused_name(program, user.name + ".sum");
  part.dtype = user.dtype;
  part.axes = std::move(axes.axes);
  part.body = substitute(expr, axes.replacement);
  part.line = user.line;
  program.definitions.push_back(part);  // reserves the name
  before.push_back(std::move(part));
  return access(before.back().name, std::vector<Affine>(symbols.begin(), symbols.end()));
}

bool fits_in_memory(const Expr& expr, const Scope& scope) {
  int long_axes = 0;
  for (const Symbol symbol : open_symbols_of(expr, scope)) {
    const Range& range = *scope.find(symbol);
    if (is_long(range)) ++long_axes;
  }
  return long_axes <= 2;
}

}  // namespace

Program split_reductions(const Program& program) {
  Program result = program;
  result.definitions.clear();
  Program names = program;  // for unused names
  for (Definition definition : program.definitions) {
    std::vector<Definition> before;
    const Expr root = definition.body;
    const auto split = [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
      const bool splits = expr->kind == NodeKind::Reduce && expr != root && is_long(expr->range) && fits_in_memory(expr, scope);
      return splits ? std::optional(extract(names, before, definition, expr, scope)) : std::nullopt;
    };
    definition.body = rewrite_top_down(definition.body, Scope::of(definition), split);
    for (Definition& part : before) result.definitions.push_back(std::move(part));
    result.definitions.push_back(std::move(definition));
  }
  return result;
}

}  // namespace moxie
