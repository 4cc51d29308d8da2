#include <algorithm>

#include "compiler/diff/lift_linear_algebra.h"
#include "compiler/diff/program_builder.h"
#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/library_matrix.h"
#include "compiler/rewrite/patterns/matrix_result.h"

namespace moxie {
namespace {

using enum LinearAlgebraKind;

bool is_solve(LinearAlgebraKind kind) { return kind == Solve || kind == LuSolve || kind == LuSolveTransposed; }

/// Right-hand sides of one matrix: steps of a scan, or elements of a batch, that it does not see.
double solves_of_matrix(const Definition& definition) {
  const Expr& body = definition.body;
  double count = 1;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    const Symbol axis = Symbol::axis(k);
    if (Affine(axis) != body->subscripts[0] && !body->args[0]->depends_on(axis))
      count *= assumed_extent(definition.axes[k].range);
  }
  return count;
}

/// A kernel, and every step of a scan, factors the matrix of a solve for each right-hand side. Where many have the same
/// matrix, its inverse X is computed once, and a solution is x = X b. That is as close to the solution as the one by
/// factors is, but its residual may be larger (Druinsky and Toledo, "How accurate is inv(A)*b?", 2012). Unless
/// precision is fast, it adds X (b - A x), one step of iterative refinement, after which the residual is as small as
/// that of a stable solve (Higham, Accuracy and Stability of Numerical Algorithms, 12).
class InverseReuse {
 public:
  explicit InverseReuse(const Program& program)
      : program_(program), refines_(program.precision != Precision::Fast), builder_(without_definitions(program)) {
    for (const Definition& definition : program.definitions) builder_.reserve(definition.name);
  }

  Program run() {
    for (const Definition& definition : program_.definitions)
      builder_.add_definition(is_worth_it(definition) ? by_inverse(definition) : definition);
    return leave_scans(builder_.take());
  }

 private:
  static Program without_definitions(Program program) {
    program.definitions.clear();
    return program;
  }

  bool is_worth_it(const Definition& definition) const {
    const Expr& body = definition.body;
    if (body->kind != NodeKind::LinearAlgebra || !is_solve(body->algebra) ||
        (has_library_matrix(definition) && !definition.scan))
      return false;
    if (!is_lifted_linear_algebra(definition)) return false;
    if (definition.scan && reads_scan(program_, body->args[0], *definition.scan)) return false;
    const double rows = assumed_extent(Range::extent(body->size.rows)), solves = solves_of_matrix(definition);
    const double factors = rows * rows * rows / (body->algebra == Solve ? 6 : 3), product = rows * rows;
    return 3 * factors + solves * (refines_ ? 3 : 1) * product < solves * (factors + product);
  }

  Definition by_inverse(const Definition& definition) {
    const Expr& body = definition.body;
    const OpenedLinearAlgebra opened = open_algebra(body);
    const Affine own = body->subscripts[0], other(Symbol::fresh());
    const bool transposed = body->algebra == LuSolveTransposed;
    const Affine &row = transposed ? other : own, &col = transposed ? own : other;
    const auto sum = [&](const Expr& term) {
      return reduce(ReduceKind::Sum, *other.as_symbol(), Range::extent(body->size.rows), term);
    };
    const auto rhs_at = [&](const Affine& at) { return substitute(opened.rhs, {{opened.row, at}}); };
    const LinearAlgebraKind inversion = body->algebra == Solve ? Inverse : LuInverse;
    const Expr inverse = add_matrix_result(builder_, definition, inversion, ".inverse", row, col);
    const Expr solution = sum(inverse * rhs_at(other));
    if (!refines_) return with_body(definition, solution);
    const Definition first = with_body(part_of(definition, ".unrefined"), solution);
    const Expr image = sum(matrix_at(body, opened, row, col) * read(first, own, other));
    const Definition residual = with_body(part_of(definition, ".residual"), rhs_at(own) - image);
    builder_.add_definition(first);
    builder_.add_definition(residual);
    return with_body(definition, read(first, own, own) + sum(inverse * read(residual, own, other)));
  }

  /// An intermediate result with the axes of the definition.
  Definition part_of(Definition definition, const std::string& suffix) const {
    definition.name = builder_.free_name(definition.name + suffix);
    definition.output = false;
    definition.role = OutputRole::Value;
    definition.domain = ValueDomain::Any;
    return definition;
  }
  static Definition with_body(Definition definition, const Expr& body) {
    definition.body = body;
    return definition;
  }

  /// The element at the axes of the definition, but with `at` in the place of the axis `own`.
  static Expr read(const Definition& definition, const Affine& own, const Affine& at) {
    std::vector<Affine> subscripts;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      const Affine axis(Symbol::axis(k));
      subscripts.push_back(axis == own ? at : axis);
    }
    return tensor_access(definition.name, std::move(subscripts));
  }

  /// Of a symmetric matrix the lower triangle is read.
  static Expr matrix_at(const Expr& body, const OpenedLinearAlgebra& opened, const Affine& row, const Affine& col) {
    const auto element = [&](const Affine& i, const Affine& j) {
      return substitute(opened.matrix, {{opened.row, i}, {opened.col, j}});
    };
    if (reads_whole_matrix(body->algebra)) return element(row, col);
    const Expr is_below = call(">=", {index_value(row), index_value(col)});
    return call("where", {is_below, element(row, col), element(col, row)});
  }

  const Program& program_;
  bool refines_;
  ProgramBuilder builder_;
};

}  // namespace

Program reuse_inverses(const Program& program) { return InverseReuse(program).run(); }

}  // namespace moxie
