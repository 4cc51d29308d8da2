#include "compiler/diff/lift_linear_algebra.h"
#include "compiler/diff/open_definition.h"
#include "compiler/diff/program_builder.h"
#include "compiler/rewrite/library_matrix.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

using enum LinearAlgebraKind;

class Factoring {
 public:
  explicit Factoring(const Program& program)
      : builder_(without_definitions(program)), definitions_(program.definitions) {
    for (const Definition& definition : definitions_) builder_.reserve(definition.name);
  }

  Program run() {
    for (Definition& definition : definitions_) {
      if (has_library_matrix(definition) && is_lifted_linear_algebra(definition))
        definition.body = in_steps(definition);
      builder_.add_definition(std::move(definition));
    }
    return builder_.take();
  }

 private:
  static Program without_definitions(Program program) {
    program.definitions.clear();
    return program;
  }

  Expr in_steps(const Definition& definition) {
    const Expr& body = definition.body;
    switch (body->algebra) {
      case Inverse:
        return on_factor(CholeskyInverse, definition, Expr());
      case LogDet: {
        const Symbol k = Symbol::fresh();
        const Expr pivot = substitute(factor_of(definition), {{row_, Affine(k)}, {col_, Affine(k)}});
        return Expr(2) * reduce(ReduceKind::Sum, k, Range::extent(body->size.rows), call("log", {pivot}));
      }
      case Solve: {
        Definition half = definition;
        half.name = builder_.free_name(definition.name + ".half");
        half.output = false;
        half.role = OutputRole::Value;
        half.domain = ValueDomain::Any;
        half.body = on_factor(TriSolve, definition, open_algebra(body).rhs);
        builder_.add_definition(half);
        std::vector<Affine> at_row;
        for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
          at_row.push_back(Affine(Symbol::axis(k)) == body->subscripts[0] ? Affine(row_) : Affine(Symbol::axis(k)));
        return on_factor(TriSolveTransposed, definition, tensor_access(half.name, at_row));
      }
      default:
        return body;
    }
  }

  Expr on_factor(LinearAlgebraKind kind, const Definition& definition, Expr rhs) {
    const Expr factor = factor_of(definition);
    const OpenedLinearAlgebra opened = open_algebra(definition.body);
    if (rhs && kind == TriSolve) rhs = substitute(opened.rhs, {{opened.row, row_}});
    return linear_algebra(kind, row_, col_, definition.body->size, factor, rhs, definition.body->subscripts);
  }

  /// The Cholesky factor of the matrix at row_ and col_, a definition over these and the axes that the matrix sees.
  Expr factor_of(const Definition& definition) {
    const OpenDefinition open = open_definition(definition);
    const OpenedLinearAlgebra opened = open_algebra(open.body);
    const Range rows = Range::extent(definition.body->size.rows);
    const IterationDomain domain = extended(extended(open.domain, opened.row, rows), opened.col, rows);
    std::vector<std::pair<Symbol, std::string>> names;
    std::vector<Symbol> variables;
    Replacement closing = {{opened.row, row_}, {opened.col, col_}};
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      const Symbol variable = open.domain.variables[k];
      names.emplace_back(variable, definition.axes[k].name);
      closing.emplace_back(variable, Symbol::axis(k));
      if (opened.matrix->depends_on(variable)) variables.push_back(variable);
    }
    variables.push_back(opened.row);
    variables.push_back(opened.col);
    const Symbol row = Symbol::fresh(), col = Symbol::fresh();
    const Expr matrix = substitute(opened.matrix, {{opened.row, row}, {opened.col, col}});
    const Expr body =
        linear_algebra(Cholesky, row, col, definition.body->size, matrix, Expr(), {opened.row, opened.col});
    const LetHead head{definition.name + ".factor", definition.dtype, definition.line, definition.scan};
    const Expr read = builder_.add_let(head, as_axes(builder_, variables, *boxes_of(domain, variables), names), body);
    return substitute(read, closing);
  }

  ProgramBuilder builder_;
  std::vector<Definition> definitions_;
  const Symbol row_ = Symbol::fresh(), col_ = Symbol::fresh();
};

}  // namespace

Program factor_matrices(const Program& program) { return Factoring(program).run(); }

Program store_matrices(const Program& program) { return lift_operands(program, has_library_matrix); }

}  // namespace moxie
