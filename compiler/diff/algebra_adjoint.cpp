#include "compiler/diff/algebra_adjoint.h"

#include <algorithm>

#include "compiler/diff/chain.h"
#include "compiler/diff/open_definition.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// Notation below: X is the result, a bar marks an adjoint, G the adjoint of the matrix for unrestricted changes of it.
class AlgebraAdjoint {
 public:
  AlgebraAdjoint(ProgramBuilder& builder, const Definition& definition, const Expr& adjoint,
                 Contributions& contributions, Gates* gates)
      : builder_(builder),
        definition_(definition),
        contributions_(contributions),
        gates_(gates),
        open_(open_definition(definition)),
        rows_(definition.body->size.rows),
        columns_(definition.body->size.columns),
        operands_(open_algebra(open_.body)),
        adjoint_(substitute(adjoint, open_.opening)) {
    for (const Affine& subscript : open_.body->subscripts) elements_.push_back(*subscript.as_symbol());
    for (std::size_t k = 0; k < definition.axes.size(); ++k) {
      const Symbol index = open_.domain.variables[k];
      if (std::ranges::find(elements_, index) == elements_.end()) batch_.push_back(index);
      names_.emplace_back(index, definition.axes[k].name);
      if (definition.axes[k].range.as_extent() != definition.axes[k].extent) {
        throw CompileError("definition " + definition.name +
                           " computes linear algebra on part of its axes; it can be differentiated only if "
                           "every axis runs over its whole extent");
      }
    }
  }

  void run() {
    switch (definition_.body->algebra) {
      case LinearAlgebraKind::Inverse:
        return inverse();
      case LinearAlgebraKind::LogDet:
        return log_determinant();
      case LinearAlgebraKind::Solve:
        return solve();
      case LinearAlgebraKind::TriSolve:
        return triangular_solve(LinearAlgebraKind::TriSolveTransposed);
      case LinearAlgebraKind::TriSolveTransposed:
        return triangular_solve(LinearAlgebraKind::TriSolve);
      case LinearAlgebraKind::Cholesky:
        return cholesky();
      case LinearAlgebraKind::CholeskyInverse:
        return cholesky_inverse();
      case LinearAlgebraKind::LuSolve:
        return general_solve(LinearAlgebraKind::LuSolveTransposed);
      case LinearAlgebraKind::LuSolveTransposed:
        return general_solve(LinearAlgebraKind::LuSolve);
      case LinearAlgebraKind::LuInverse:
        return general_inverse();
      case LinearAlgebraKind::Determinant:
        return general_determinant(chain(result_at(), adjoint_));
      case LinearAlgebraKind::LogAbsDeterminant:
        return general_determinant(adjoint_);
      case LinearAlgebraKind::Eigenvalues:
        return eigenvalues();
      case LinearAlgebraKind::Eigenvectors:
        return eigenvectors();
      case LinearAlgebraKind::QrQ:
        return orthogonal_factor();
      case LinearAlgebraKind::QrR:
        return upper_factor();
      case LinearAlgebraKind::SingularValues:
        return singular_values();
      case LinearAlgebraKind::Svd:
        return singular_vectors();
      case LinearAlgebraKind::Sort:
      case LinearAlgebraKind::ArgSort:
        throw InternalError("a sort in " + definition_.name + " is no integer definition, which is a constant");
    }
  }

 private:
  // ---- The operations ----

  /// G = -X Xbar X, X being symmetric.
  void inverse() {
    const Symbol i = Symbol::fresh(), r = Symbol::fresh(), t = Symbol::fresh();
    const Expr half = let({i, t}, sum([&](Symbol j) { return adjoint_at(i, j) * result_at(t, j); }));
    const Expr g = let({r, t}, -sum([&](Symbol k) { return result_at(r, k) * substitute(half, {{i, k}}); }));
    symmetric_matrix(g, r, t);
  }

  /// G = cbar A^-1
  void log_determinant() {
    const Symbol r = Symbol::fresh(), t = Symbol::fresh();
    const Expr inverted = let({r, t}, algebra(LinearAlgebraKind::Inverse, Expr(), {r, t}));
    symmetric_matrix(chain(inverted, adjoint_), r, t);
  }

  /// bbar = A^-1 xbar, G = -bbar x^T
  void solve() {
    const Symbol r = Symbol::fresh(), t = Symbol::fresh();
    const Expr bbar = let({r}, algebra(LinearAlgebraKind::Solve, adjoint_at(operands_.row), {r}));
    right_hand_side(bbar, r);
    symmetric_matrix(-(bbar * result_at(t)), r, t);
  }

  /// L x = b: bbar = L^-T xbar, G = -bbar x^T;  L^T x = b: bbar = L^-1 xbar, G = -x bbar^T.
  void triangular_solve(LinearAlgebraKind opposite) {
    const Symbol r = Symbol::fresh(), t = Symbol::fresh();
    const Expr bbar = let({r}, algebra(opposite, adjoint_at(operands_.row), {r}));
    right_hand_side(bbar, r);
    const bool plain = opposite == LinearAlgebraKind::TriSolveTransposed;
    const Expr g = plain ? bbar * result_at(t) : result_at(r) * substitute(bbar, {{r, t}});
    matrix(-g, r, t, {{Affine(r) - Affine(t)}, {}});
  }

  /// P = the lower triangle of L^T Lbar with half its diagonal, G = L^-T P L^-1 (Murray, "Differentiation of the
  /// Cholesky decomposition").
  void cholesky() {
    const Symbol i = Symbol::fresh(), j = Symbol::fresh(), r = Symbol::fresh(), t = Symbol::fresh();
    const Symbol k = Symbol::fresh();
    const Expr inner = reduce(ReduceKind::Sum, k, Range::half_open(i, columns_), result_at(k, i) * adjoint_at(k, j));
    const Expr lower = call("where", {call(">", {index_value(i), index_value(j)}), 1, 0});
    const Expr weight = call("where", {call("==", {index_value(i), index_value(j)}), 0.5, lower});
    const Expr p = let({i, j}, weight * inner);
    const Expr half =
        let({i, j}, triangular(LinearAlgebraKind::TriSolveTransposed, substitute(p, {{i, operands_.row}}), i));
    const Expr row = substitute(half, {{i, r}, {j, operands_.row}});
    symmetric_matrix(let({r, t}, triangular(LinearAlgebraKind::TriSolveTransposed, row, t)), r, t);
  }

  /// X = (L L^T)^-1: G = -X (Xbar + Xbar^T) X L, of its lower triangle.
  void cholesky_inverse() {
    const Symbol i = Symbol::fresh(), r = Symbol::fresh(), t = Symbol::fresh();
    const Expr half =
        let({i, t}, sum([&](Symbol j) { return (adjoint_at(i, j) + adjoint_at(j, i)) * result_at(j, t); }));
    const Expr both = let({r, t}, sum([&](Symbol k) { return result_at(r, k) * substitute(half, {{i, k}}); }));
    const Expr g =
        reduce(ReduceKind::Sum, i, Range::half_open(t, columns_),
               substitute(both, {{t, i}}) * substitute(operands_.matrix, {{operands_.row, i}, {operands_.col, t}}));
    matrix(-let({r, t}, g), r, t, {{Affine(r) - Affine(t)}, {}});
  }

  /// A x = b: bbar = A^-T xbar, G = -bbar x^T;  A^T x = b: bbar = A^-1 xbar, G = -x bbar^T.
  void general_solve(LinearAlgebraKind opposite) {
    const Symbol r = Symbol::fresh(), t = Symbol::fresh();
    const Expr bbar = let({r}, algebra(opposite, adjoint_at(operands_.row), {r}));
    right_hand_side(bbar, r);
    const bool plain = opposite == LinearAlgebraKind::LuSolveTransposed;
    const Expr g = plain ? bbar * result_at(t) : result_at(r) * substitute(bbar, {{r, t}});
    matrix(-g, r, t, {});
  }

  /// G = -X^T Xbar X^T
  void general_inverse() {
    const Symbol i = Symbol::fresh(), r = Symbol::fresh(), t = Symbol::fresh();
    const Expr half = let({i, t}, sum([&](Symbol j) { return adjoint_at(i, j) * result_at(t, j); }));
    const Expr g = let({r, t}, -sum([&](Symbol k) { return result_at(k, r) * substitute(half, {{i, k}}); }));
    matrix(g, r, t, {});
  }

  /// G = weight A^-T
  void general_determinant(const Expr& weight) {
    const Symbol r = Symbol::fresh(), t = Symbol::fresh();
    const Expr inverted = let({t, r}, algebra(LinearAlgebraKind::LuInverse, Expr(), {t, r}));
    matrix(chain(inverted, weight), r, t, {});
  }

  /// G = V diag(wbar) V^T
  void eigenvalues() {
    const Symbol r = Symbol::fresh(), t = Symbol::fresh();
    const Expr v = let({r, t}, algebra(LinearAlgebraKind::Eigenvectors, Expr(), {r, t}));
    const Expr g =
        let({r, t},
            sum([&](Symbol k) { return substitute(v, {{t, k}}) * adjoint_at(k) * substitute(v, {{r, t}, {t, k}}); }));
    symmetric_matrix(g, r, t);
  }

  /// G = V (F * V^T Vbar) V^T, where F[i,j] = 1/(w[j] - w[i]), or 0 where both are equal.
  void eigenvectors() {
    const Symbol i = Symbol::fresh(), j = Symbol::fresh(), r = Symbol::fresh(), t = Symbol::fresh();
    const Expr w = let({i}, algebra(LinearAlgebraKind::Eigenvalues, Expr(), {i}));
    const Expr gap = substitute(w, {{i, j}}) - w;
    const Expr inverted = call("where", {call("==", {gap, 0}), 0, Expr(1) / gap});
    const Expr turned = let({i, j}, inverted * sum([&](Symbol k) { return result_at(k, i) * adjoint_at(k, j); }));
    const Expr half = let({r, j}, sum([&](Symbol k) { return result_at(r, k) * substitute(turned, {{i, k}}); }));
    const Expr g = let({r, t}, sum([&](Symbol k) { return substitute(half, {{j, k}}) * result_at(t, k); }));
    symmetric_matrix(g, r, t);
  }

  /// X = Q: G = (Qbar - Q copyltu(Qbar^T Q)) R^-T
  void orthogonal_factor() {
    const Symbol i = Symbol::fresh(), j = Symbol::fresh(), r = row_index();
    const Expr m = let({i, j}, sum_of_rows([&](Symbol k) { return adjoint_at(k, i) * result_at(k, j); }));
    const Expr turned = sum([&](Symbol k) { return result_at(r, k) * mirrored(m, i, j, k, j); });
    const Expr upper = let({i, j}, algebra(LinearAlgebraKind::QrR, Expr(), {i, j}));
    behind_upper_factor(let({r, j}, adjoint_at(r, j) - turned), upper, r, i, j);
  }

  /// X = R: G = Q copyltu(R Rbar^T) R^-T
  void upper_factor() {
    const Symbol i = Symbol::fresh(), j = Symbol::fresh(), r = row_index();
    const Symbol k = Symbol::fresh();
    const Range from_diagonal = Range::half_open(i, columns_);
    const Expr m = let({i, j}, reduce(ReduceKind::Sum, k, from_diagonal, result_at(i, k) * adjoint_at(j, k)));
    const Expr q = let({r, i}, algebra(LinearAlgebraKind::QrQ, Expr(), {r, i}));
    const Expr turned = sum([&](Symbol l) { return substitute(q, {{i, l}}) * mirrored(m, i, j, l, j); });
    behind_upper_factor(let({r, j}, turned), result_at(i, j), r, i, j);
  }

  /// G = U diag(sbar) V^T
  void singular_values() {
    const Symbol i = stacked_index(), r = row_index(), k = Symbol::fresh(), t = Symbol::fresh();
    const Expr both = let({i, k}, algebra(LinearAlgebraKind::Svd, Expr(), {i, k}));
    const auto term = [&](Symbol l) {
      return substitute(both, {{i, r}, {k, l}}) * adjoint_at(l) * substitute(both, {{i, rows_ + Affine(t)}, {k, l}});
    };
    matrix(let({r, t}, sum(term)), r, t, {});
  }

  /// P = U^T Ubar, Q = V^T Vbar, K = F * ((P - P^T) S + S (Q - Q^T)), where F[i,j] = 1/(s[j]^2 - s[i]^2), or 0 where
  /// both are equal: G = U K V^T, and, where U has more rows than columns, + (Ubar - U P) S^-1 V^T with 0 for 1/0
  /// (Townsend, "Differentiating the singular value decomposition").
  void singular_vectors() {
    const Symbol i = Symbol::fresh(), j = Symbol::fresh(), r = row_index(), t = Symbol::fresh();
    const Expr s = let({i}, algebra(LinearAlgebraKind::SingularValues, Expr(), {i})), s_j = substitute(s, {{i, j}});
    const Expr p = let({i, j}, sum_of_rows([&](Symbol k) { return result_at(k, i) * adjoint_at(k, j); }));
    const auto below = [&](Symbol k) { return rows_ + Affine(k); };
    const Expr q = let({i, j}, sum([&](Symbol k) { return result_at(below(k), i) * adjoint_at(below(k), j); }));
    const auto skew = [&](const Expr& x) { return x - substitute(x, {{i, j}, {j, i}}); };
    const auto inverse_of = [](const Expr& x) { return call("where", {call("==", {x, 0}), 0, Expr(1) / x}); };
    Expr turned = inverse_of((s_j - s) * (s_j + s)) * (skew(p) * s_j + s * skew(q));
    const bool is_tall = rows_ != columns_;
    if (is_tall) turned = turned - p * inverse_of(s_j);
    turned = let({i, j}, turned);
    const Expr inside = sum([&](Symbol k) { return result_at(r, k) * substitute(turned, {{i, k}}); });
    const Expr half = let({r, j}, is_tall ? inside + adjoint_at(r, j) * inverse_of(s_j) : inside);
    matrix(let({r, t}, sum([&](Symbol k) { return substitute(half, {{j, k}}) * result_at(below(t), k); })), r, t, {});
  }

  /// Element (a, b) of the symmetric matrix with the lower triangle of m, which is over i and j.
  static Expr mirrored(const Expr& m, Symbol i, Symbol j, Symbol a, Symbol b) {
    const Expr is_below = call(">=", {index_value(a), index_value(b)});
    return call("where", {is_below, substitute(m, {{i, a}, {j, b}}), substitute(m, {{i, b}, {j, a}})});
  }

  /// G = Y R^-T, of which every row solves R x = y (Walter and Lehmann, "Algorithmic differentiation of linear algebra
  /// functions with application in optimum experimental design"). Y is over r and j, R over i and j.
  void behind_upper_factor(const Expr& y, const Expr& upper, Symbol r, Symbol i, Symbol j) {
    const Symbol row = Symbol::fresh(), col = Symbol::fresh(), t = Symbol::fresh();
    const Expr transposed = substitute(upper, {{i, col}, {j, row}});
    const Expr g = linear_algebra(LinearAlgebraKind::TriSolveTransposed, row, col, columns_, transposed,
                                  substitute(y, {{j, row}}), {t});
    matrix(let({r, t}, g), r, t, {});
  }

  // ---- Pieces ----

  /// An index of the rows of a matrix that is not square, or of its rows and then its columns; all others run over its
  /// columns.
  Symbol row_index() { return other_indices_.emplace_back(Symbol::fresh(), rows_).first; }
  Symbol stacked_index() { return other_indices_.emplace_back(Symbol::fresh(), rows_ + columns_).first; }

  Expr at(const Expr& expr, const std::vector<Affine>& element) const {
    Replacement replacement;
    for (std::size_t k = 0; k < element.size(); ++k) replacement.emplace_back(elements_[k], element[k]);
    return substitute(expr, replacement);
  }
  template <class... Element>
  Expr adjoint_at(const Element&... element) const {
    return at(adjoint_, {Affine(element)...});
  }
  template <class... Element>
  Expr result_at(const Element&... element) const {
    std::vector<Affine> subscripts(open_.domain.variables.begin(), open_.domain.variables.end());
    return at(tensor_access(definition_.name, std::move(subscripts)), {Affine(element)...});
  }

  template <class Body>
  Expr sum(const Body& body) const {
    const Symbol index = Symbol::fresh();
    return reduce(ReduceKind::Sum, index, Range::extent(columns_), body(index));
  }
  template <class Body>
  Expr sum_of_rows(const Body& body) const {
    const Symbol index = Symbol::fresh();
    return reduce(ReduceKind::Sum, index, Range::extent(rows_), body(index));
  }

  /// The operation on the matrix of this definition.
  Expr algebra(LinearAlgebraKind kind, const Expr& rhs, std::vector<Affine> element) const {
    return linear_algebra(kind, operands_.row, operands_.col, definition_.body->size, operands_.matrix, rhs,
                          std::move(element));
  }
  /// The same on its result.
  Expr triangular(LinearAlgebraKind kind, const Expr& rhs, Symbol element) const {
    return linear_algebra(kind, operands_.row, operands_.col, columns_, result_at(operands_.row, operands_.col), rhs,
                          {element});
  }

  IterationDomain domain_over(const std::vector<Symbol>& more) const {
    IterationDomain domain = open_.domain;
    domain.variables = batch_;
    std::erase_if(domain.nonnegative, [&](const Affine& row) {
      return std::ranges::any_of(elements_, [&](Symbol e) { return row.mentions(e); });
    });
    for (const Symbol index : more) {
      const auto other = std::ranges::find(other_indices_, index, &std::pair<Symbol, Affine>::first);
      domain = extended(domain, index, Range::extent(other != other_indices_.end() ? other->second : columns_));
    }
    return domain;
  }

  /// A definition over the batch and `indices`, read at these.
  Expr let(const std::vector<Symbol>& indices, const Expr& body) {
    const IterationDomain domain = domain_over(indices);
    const std::string name = "adj." + definition_.name + "." + std::to_string(++lets_);
    const Expr read =
        builder_.add_let({name, definition_.dtype, definition_.line, definition_.scan},
                         as_axes(builder_, domain.variables, *boxes_of(domain, domain.variables), names_), body);
    if (gates_ && gates_->may_be_zero(body)) gates_->add(read->tensor);
    return read;
  }

  void right_hand_side(const Expr& bbar, Symbol r) {
    contributions_.add(builder_.program(), domain_over({r}), substitute(operands_.rhs, {{operands_.row, r}}), bbar,
                       definition_.dtype, gates_ != nullptr);
  }

  struct Triangle {
    std::vector<Affine> nonnegative, zero;
  };

  void matrix(const Expr& g, Symbol r, Symbol t, const Triangle& triangle) {
    IterationDomain domain = domain_over({r, t});
    domain.nonnegative.insert(domain.nonnegative.end(), triangle.nonnegative.begin(), triangle.nonnegative.end());
    domain.zero = triangle.zero;
    contributions_.add(builder_.program(), domain,
                       substitute(operands_.matrix, {{operands_.row, r}, {operands_.col, t}}), g, definition_.dtype,
                       gates_ != nullptr);
  }

  void symmetric_matrix(const Expr& g, Symbol r, Symbol t) {
    matrix(g, r, t, {{}, {Affine(r) - Affine(t)}});
    matrix(g + substitute(g, {{r, t}, {t, r}}), r, t, {{Affine(r) - Affine(t) - Affine(1)}, {}});
  }

  ProgramBuilder& builder_;
  const Definition& definition_;
  Contributions& contributions_;
  Gates* gates_;
  OpenDefinition open_;
  Affine rows_, columns_;
  OpenedLinearAlgebra operands_;
  Expr adjoint_;
  std::vector<Symbol> elements_, batch_;
  std::vector<std::pair<Symbol, Affine>> other_indices_;  // indices over rows, and their extents
  std::vector<std::pair<Symbol, std::string>> names_;
  int lets_ = 0;
};

}  // namespace

void differentiate_algebra(ProgramBuilder& builder, const Definition& definition, const Expr& adjoint,
                           Contributions& contributions, Gates* gates) {
  AlgebraAdjoint(builder, definition, adjoint, contributions, gates).run();
}

}  // namespace moxie
