#include "compiler/diff/lift_linear_algebra.h"
#include "compiler/diff/program_builder.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/library_matrix.h"
#include "compiler/rewrite/patterns/matrix_result.h"

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

  /// The Cholesky factor of the matrix at row_ and col_.
  Expr factor_of(const Definition& definition) {
    return add_matrix_result(builder_, definition, Cholesky, ".factor", row_, col_);
  }

  ProgramBuilder builder_;
  std::vector<Definition> definitions_;
  const Symbol row_ = Symbol::fresh(), col_ = Symbol::fresh();
};

}  // namespace

Program factor_matrices(const Program& program) { return leave_scans(Factoring(program).run()); }

Program store_matrices(const Program& program) { return leave_scans(lift_operands(program, has_library_matrix)); }

}  // namespace moxie
