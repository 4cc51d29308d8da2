#include "compiler/rewrite/patterns/matrix_result.h"

#include "compiler/diff/open_definition.h"

namespace moxie {

Expr add_matrix_result(ProgramBuilder& builder, const Definition& definition, LinearAlgebraKind kind,
                       const std::string& suffix, const Affine& row, const Affine& col) {
  const OpenDefinition open = open_definition(definition);
  const OpenedLinearAlgebra opened = open_algebra(open.body);
  const Range rows = Range::extent(definition.body->size.rows);
  const IterationDomain domain = extended(extended(open.domain, opened.row, rows), opened.col, rows);
  std::vector<Symbol> variables;
  Replacement closing = {{opened.row, row}, {opened.col, col}};
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    const Symbol variable = open.domain.variables[k];
    closing.emplace_back(variable, Symbol::axis(k));
    if (opened.matrix->depends_on(variable)) variables.push_back(variable);
  }
  variables.push_back(opened.row);
  variables.push_back(opened.col);
  const Symbol own_row = Symbol::fresh(), own_col = Symbol::fresh();
  const Expr matrix = substitute(opened.matrix, {{opened.row, own_row}, {opened.col, own_col}});
  const Expr body =
      linear_algebra(kind, own_row, own_col, definition.body->size, matrix, Expr(), {opened.row, opened.col});
  const LetHead head{definition.name + suffix, definition.dtype, definition.line, definition.scan};
  const auto axes = as_axes(builder, variables, *boxes_of(domain, variables), names_of(definition, open));
  return substitute(builder.add_let(head, axes, body), closing);
}

}  // namespace moxie
