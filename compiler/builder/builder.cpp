#include "compiler/builder/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "compiler/analysis/condition_guards.h"
#include "compiler/builder/skewed_scan.h"
#include "compiler/expression/algebra_form.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/declared_extents.h"
#include "compiler/program/placeholders.h"
#include "compiler/program/scans.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

std::vector<Affine> to_affine(const std::vector<Expr>& exprs) {
  std::vector<Affine> result;
  for (const Expr& expr : exprs) result.push_back(to_affine(expr));
  return result;
}

// ---- Axes ----

bool is_taken(const Program& program, const std::string& name) {
  return program.find_dim(name) || program.find_input(name) || program.find_definition(name) ||
         find_index(program, name);
}

/// Names of the indices around a place, the definition's own name among them.
using NameScope = std::vector<std::string>;

bool contains(const NameScope& scope, const std::string& name) { return std::ranges::find(scope, name) != scope.end(); }

/// i, j, k, l, m, then i2, j2, ...
std::string new_index_name(const Program& program, const NameScope& scope) {
  constexpr std::string_view kLetters = "ijklm";
  for (std::size_t number = 0;; ++number) {
    const std::size_t round = number / kLetters.size() + 1;
    const std::string name = kLetters[number % kLetters.size()] + (round > 1 ? std::to_string(round) : "");
    if (!contains(scope, name) && !is_taken(program, name)) return name;
  }
}

/// That of a declared index of the range, if there is one that the scope does not use.
std::string index_name(const Program& program, const NameScope& scope, const Range& range) {
  for (const IndexDecl& index : program.indices) {
    if (index.range == range && !contains(scope, index.name)) return index.name;
  }
  return new_index_name(program, scope);
}

bool mentions_dims_only(const Range& range) {
  const auto is_dim = [](const Affine::Term& term) { return term.first.is_dim(); };
  const auto only_dims = [&](const Bound& bound) { return std::ranges::all_of(bound.value.terms(), is_dim); };
  return std::ranges::all_of(range.lows, only_dims) && std::ranges::all_of(range.highs, only_dims);
}

/// Declares an index for every reduction over dims that has none to be printed with.
void declare_bound_indices(Program& program, const Expr& expr, NameScope scope, std::unordered_set<const Node*>& seen) {
  if (!seen.insert(expr.get()).second) return;
  if (expr->kind == NodeKind::Reduce && mentions_dims_only(expr->range)) {
    scope.push_back(index_name(program, scope, expr->range));
    if (!find_index(program, scope.back())) program.indices.push_back({scope.back(), expr->range});
  }
  for (const Expr& arg : expr->args) declare_bound_indices(program, arg, scope, seen);
}

/// A definition whose indices turn into axes one after the other.
class DefinitionBuilder {
 public:
  DefinitionBuilder(Program& program, const std::string& name) : program_(program), scope_{name} {
    definition_.name = name;
  }

  void add_axis(const Index& index) {
    const Affine* known = find(index.symbol());
    if (known)
      throw TypeError(
          fmt::format("definition `{}`: one index stands twice among its axes; make a second Index of that range",
                      definition_.name));
    const Range range = index.range().substitute([&](Symbol symbol) { return find(symbol); });
    const std::string name = index.name().empty() ? index_name(program_, scope_, range) : index.name();
    const std::optional<Affine> extent = index.extent() ? index.extent() : axis_extent(Program(), name, range);
    if (!extent) {
      throw ShapeError(
          fmt::format("definition `{}`: the extent of axis {} cannot be seen from its range; say how many elements are "
                      "stored: Index(low, high).of(N)",
                      definition_.name, name));
    }
    if (mentions_dims_only(range) && !is_taken(program_, name)) program_.indices.push_back({name, range});
    replacement_.emplace_back(index.symbol(), Symbol::axis(static_cast<std::uint32_t>(definition_.axes.size())));
    definition_.axes.push_back({name, *extent, range});
    scope_.push_back(name);
  }

  Definition finish(const Expr& body, const Declared& declared, bool output) && {
    if (!body) throw TypeError(fmt::format("definition `{}` has no formula: the Expr is empty", definition_.name));
    definition_.body = substitute(body, replacement_);
    definition_.dtype = declared.dtype.value_or(program_.default_dtype);
    definition_.domain = declared.domain;
    definition_.output = output;
    check_closed();
    std::unordered_set<const Node*> seen;
    declare_bound_indices(program_, definition_.body, scope_, seen);
    definition_.body = with_ordered_conditions(program_, definition_);
    return std::move(definition_);
  }

 private:
  const Affine* find(Symbol symbol) const {
    const auto it = std::ranges::find(replacement_, symbol, &Replacement::value_type::first);
    return it == replacement_.end() ? nullptr : &it->second;
  }

  /// An index that nothing binds has no name to be called by, so the message shows where it stands.
  void check_closed() const {
    const auto is_open = [](Symbol symbol) { return symbol.kind() == Symbol::Kind::Free; };
    visit(definition_.body, [&](const Expr& expr) {
      if (!expr->args.empty() || std::ranges::none_of(expr->free_symbols, is_open)) return;
      throw TypeError(fmt::format(
          "definition `{}`: an index in `{}` is no axis of the definition and nothing reduces over it; make it an "
          "axis, or write sum(index, ...)",
          definition_.name, print(expr, program_, definition_.axes)));
    });
  }

  Program& program_;
  Definition definition_;
  Replacement replacement_;
  NameScope scope_;
};

/// Makes the change, unless it makes the program wrong.
template <class Change>
void change_verified(Program& program, const Change& change) {
  Program changed = program;
  change(changed);
  verify(changed);
  program = std::move(changed);
}

Dim add_dim(Program& program, DimDecl dim) {
  change_verified(program, [&](Program& changed) { changed.dims.push_back(dim); });
  return Dim(dim.name);
}

/// The new definition, which nothing has verified yet.
Definition& append_definition(Program& program, const std::string& name, const std::vector<Index>& axes,
                              const Expr& body, const Declared& declared, bool output) {
  DefinitionBuilder builder(program, name);
  for (const Index& axis : axes) builder.add_axis(axis);
  return program.definitions.emplace_back(std::move(builder).finish(body, declared, output));
}

Tensor add_definition(Program& program, const std::string& name, const std::vector<Index>& axes, const Expr& body,
                      const Declared& declared, bool output, OutputRole role = OutputRole::Value) {
  change_verified(
      program, [&](Program& changed) { append_definition(changed, name, axes, body, declared, output).role = role; });
  return {name, axes.size()};
}

Tensor add_starting(Program& program, const std::string& name, const std::vector<Expr>& shape, const Initialiser& start,
                    std::optional<DType> dtype, InputRole role) {
  change_verified(program, [&](Program& changed) {
    const DType type = dtype.value_or(program.default_dtype);
    changed.inputs.push_back({name, type, to_affine(shape), ValueDomain::Any, role, start});
  });
  return {name, shape.size()};
}

Expr matrix_element(LinearAlgebraKind kind, const Index& row, const Index& col, const Expr& matrix, const Expr& rhs,
                    std::vector<Affine> element) {
  const std::optional<Affine> rows = row.range().as_extent(), columns = col.range().as_extent();
  if (!rows || !columns || (rows != columns && !takes_tall(kind))) {
    throw ShapeError(fmt::format("{} wants two indices that run from 0 to {}", to_string(kind),
                                 takes_tall(kind) ? "their extents" : "the same extent"));
  }
  return linear_algebra(kind, row.symbol(), col.symbol(), {*rows, *columns}, matrix, rhs, std::move(element));
}

}  // namespace

namespace {

[[noreturn]] void fail_not_affine(const Expr& expr) {
  throw TypeError(fmt::format(
      "`{}` is not affine in indices and dims with integer coefficients, as subscripts, shapes and ranges must be",
      print(expr, Program(), {})));
}

Affine to_subscript(const Expr& expr, std::vector<Expr>& values, Placeholders& placeholders) {
  const std::optional<Affine> affine = affine_of(expr, &values, &placeholders);
  if (!affine) fail_not_affine(expr);
  return *affine;
}

}  // namespace

Affine to_affine(const Expr& expr) {
  if (const std::optional<Affine> affine = affine_of(expr)) return *affine;
  fail_not_affine(expr);
}

namespace {

Expr divided_index(const char* mark, const Expr& index, std::int64_t divisor) {
  if (divisor <= 0) throw TypeError(fmt::format("an index is divided by {}; a divisor is a positive integer", divisor));
  Placeholders placeholders;
  const std::optional<Affine> value = affine_of(index, nullptr, &placeholders);
  if (!value) fail_not_affine(index);
  return placeholders.bind(number_of(divided_by(mark, *value, divisor, placeholders)));
}

}  // namespace

Expr quotient(const Expr& index, std::int64_t divisor) { return divided_index("//", index, divisor); }
Expr remainder(const Expr& index, std::int64_t divisor) { return divided_index("%", index, divisor); }

Condition compare(const char* comparison, const Expr& a, const Expr& b) {
  const auto as_affine = [](const Expr& expr) {
    const std::optional<Affine> affine = affine_of(expr);
    return affine && !affine->is_constant() ? index_value(*affine) : expr;
  };
  return Condition(call(comparison, {as_affine(a), as_affine(b)}));
}

Index::Index(const Expr& low, const Expr& high, std::string name)
    : range_(Range::half_open(to_affine(low), to_affine(high))), name_(std::move(name)) {}

Index Index::of(const Expr& extent) const {
  Index stored = *this;
  stored.extent_ = to_affine(extent);
  return stored;
}

Expr Tensor::at(const std::vector<Expr>& subscripts) const {
  if (subscripts.size() != rank_) {
    throw ShapeError(fmt::format("`{}` has {} axes, but {} subscripts were given", name_, rank_, subscripts.size()));
  }
  std::vector<Expr> values;
  std::vector<Affine> affine;
  Placeholders placeholders;
  for (const Expr& subscript : subscripts) affine.push_back(to_subscript(subscript, values, placeholders));
  return placeholders.bind(tensor_access(name_, std::move(affine), std::move(values)));
}

Dim Program::dim(const std::string& dim_name) { return add_dim(*this, {dim_name, std::nullopt, false}); }
Dim Program::dim(const std::string& dim_name, std::int64_t value) { return add_dim(*this, {dim_name, value, false}); }
Dim Program::dim(const std::string& dim_name, Dynamic) { return add_dim(*this, {dim_name, std::nullopt, true}); }

Tensor Program::input(const std::string& input_name, const std::vector<Expr>& shape, ValueDomain domain,
                      std::optional<DType> dtype) {
  change_verified(*this, [&](Program& changed) {
    changed.inputs.push_back({input_name, dtype.value_or(default_dtype), to_affine(shape), domain});
  });
  return {input_name, shape.size()};
}

Tensor Program::let(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                    const Declared& declared) {
  return add_definition(*this, tensor, axes, body, declared, false);
}

Tensor Program::output(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                       const Declared& declared) {
  return add_definition(*this, tensor, axes, body, declared, true);
}

Tensor Program::parameter(const std::string& input_name, const std::vector<Expr>& shape, const Initialiser& start,
                          std::optional<DType> dtype) {
  return add_starting(*this, input_name, shape, start, dtype, InputRole::Parameter);
}

Tensor Program::state(const std::string& input_name, const std::vector<Expr>& shape, const Initialiser& start,
                      std::optional<DType> dtype) {
  return add_starting(*this, input_name, shape, start, dtype, InputRole::State);
}

Tensor Program::next(const Tensor& state, const std::vector<Index>& axes, const Expr& body) {
  return add_definition(*this, std::string(kNextPrefix) + state.name(), axes, body, dtype_of(state.name()), true,
                        OutputRole::Next);
}

Tensor Program::predict(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                        const Declared& declared) {
  return add_definition(*this, tensor, axes, body, declared, true, OutputRole::Prediction);
}

Tensor Program::loss(const std::string& tensor, const Expr& body, const Declared& declared) {
  return add_definition(*this, tensor, {}, body, declared, true, OutputRole::Loss);
}

Definition& ScanBody::add(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                          const Declared& declared, bool output) {
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    if (k < axes.size() && axes[k].symbol() == steps_[k].index.symbol()) continue;
    throw ShapeError(
        fmt::format("definition `{}` of a scan does not have the scan's index as its {} axis; put that there, or "
                    "define it outside",
                    tensor, k == 0 ? "first" : "second"));
  }
  Definition& added = append_definition(program_, tensor, axes, body, declared, output);
  added.scan = scan_;
  return added;
}

Tensor ScanBody::let(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                     const Declared& declared) {
  add(tensor, axes, body, declared, false);
  return {tensor, axes.size()};
}

Tensor ScanBody::output(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                        const Declared& declared) {
  add(tensor, axes, body, declared, true);
  return {tensor, axes.size()};
}

Tensor ScanBody::recompute(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                           const Declared& declared) {
  add(tensor, axes, body, declared, false).recomputed = true;
  return {tensor, axes.size()};
}

void ScanBody::append(Program& program, const std::vector<ScanIndex>& steps, Scan scan,
                      const std::function<void(ScanBody&)>& write) {
  scan.number = last_scan(program) + 1;
  scan.backwards = steps.front().is_backwards;
  const std::size_t first = program.definitions.size();
  change_verified(program, [&](Program& changed) {
    ScanBody body(changed, steps, scan);
    write(body);
    if (changed.definitions.size() == first)
      throw TypeError("a scan is empty; define a tensor inside it: step.let(\"h\", {t}, ...)");
    if (steps.size() < 2) return;
    const auto added = std::span(changed.definitions).subspan(first);
    if (std::ranges::any_of(added, &Definition::recomputed))
      throw TypeError("a scan over two indices is kept whole; write let in the place of recompute");
    skew_scan(changed, first, {scan.backwards, steps[1].is_backwards}, scan.number);
  });
}

void Program::scan(const Index& steps, const std::function<void(ScanBody&)>& write) {
  ScanBody::append(*this, {steps}, {}, write);
}

void Program::scan(const Index& steps, Backwards, const std::function<void(ScanBody&)>& write) {
  ScanBody::append(*this, {{steps, backwards}}, {}, write);
}

void Program::scan(const Index& steps, const Checkpoints& checkpoints, const std::function<void(ScanBody&)>& write) {
  ScanBody::append(*this, {steps}, {.checkpoints = checkpoints}, write);
}

void Program::scan(const Index& steps, Backwards, const Checkpoints& checkpoints,
                   const std::function<void(ScanBody&)>& write) {
  ScanBody::append(*this, {{steps, backwards}}, {.checkpoints = checkpoints}, write);
}

void Program::scan(const ScanIndex& outer, const ScanIndex& inner, const std::function<void(ScanBody&)>& write) {
  ScanBody::append(*this, {outer, inner}, {}, write);
}

void Program::output(const Tensor& defined) {
  Definition* definition = find_definition(defined.name());
  if (!definition)
    throw TypeError(fmt::format("`{}` is no definition of this program and cannot be its output", defined.name()));
  definition->output = true;
}

Expr reduce(ReduceKind kind, std::initializer_list<Index> indices, const Expr& body) {
  Expr result = body;
  for (const Index& index : std::views::reverse(indices)) result = reduce(kind, index.symbol(), index.range(), result);
  return result;
}

Condition any(const Index& index, const Condition& condition) { return max(index, where(condition, 1, 0)) > 0; }
Condition all(const Index& index, const Condition& condition) { return min(index, where(condition, 1, 0)) > 0; }

Expr mean(std::initializer_list<Index> indices, const Expr& body) {
  std::vector<std::pair<Symbol, Range>> loops;
  for (const Index& index : indices) loops.emplace_back(index.symbol(), index.range());
  return reduce(ReduceKind::Sum, indices, body) / count_iterations(loops);
}

Expr variance(std::initializer_list<Index> indices, const Expr& body) {
  return mean(indices, squared_deviation(body, mean(indices, body)));
}

Expr softmax(const Index& index, const Expr& body) { return softmax_element(body, logsumexp(index, body)); }

Expr where(const Condition& condition, const Expr& a, const Expr& b) { return choose_by(condition.truth(), a, b); }

namespace {

Expr sorted(LinearAlgebraKind kind, const Index& index, const Expr& row, const Affine& element) {
  const std::optional<Affine> size = index.range().as_extent();
  if (!size) throw ShapeError(fmt::format("{} takes an index that runs from 0 to an extent", to_string(kind)));
  return sorted_row(kind, index.symbol(), *size, row, element);
}

}  // namespace

Expr sort(const Index& index, const Expr& row) { return sorted(LinearAlgebraKind::Sort, index, row, index.symbol()); }
Expr sort(const Index& index, const Expr& row, const Expr& element) {
  return sorted(LinearAlgebraKind::Sort, index, row, to_affine(element));
}
Expr argsort(const Index& index, const Expr& row) {
  return sorted(LinearAlgebraKind::ArgSort, index, row, index.symbol());
}
Expr argsort(const Index& index, const Expr& row, const Expr& element) {
  return sorted(LinearAlgebraKind::ArgSort, index, row, to_affine(element));
}

Expr cholesky(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::Cholesky, row, col, matrix, {}, {row.symbol(), col.symbol()});
}
Expr inverse(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::Inverse, row, col, matrix, {}, {row.symbol(), col.symbol()});
}
Expr logdet(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::LogDet, row, col, matrix, {}, {});
}
Expr solve(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs) {
  return matrix_element(LinearAlgebraKind::Solve, row, col, matrix, rhs, {col.symbol()});
}
Expr tri_solve(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs) {
  return matrix_element(LinearAlgebraKind::TriSolve, row, col, matrix, rhs, {col.symbol()});
}
Expr tri_solve_transposed(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs) {
  return matrix_element(LinearAlgebraKind::TriSolveTransposed, row, col, matrix, rhs, {col.symbol()});
}
Expr cholesky_inverse(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::CholeskyInverse, row, col, matrix, {}, {row.symbol(), col.symbol()});
}
Expr lu_solve(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs) {
  return matrix_element(LinearAlgebraKind::LuSolve, row, col, matrix, rhs, {col.symbol()});
}
Expr lu_solve_transposed(const Index& row, const Index& col, const Expr& matrix, const Expr& rhs) {
  return matrix_element(LinearAlgebraKind::LuSolveTransposed, row, col, matrix, rhs, {col.symbol()});
}
Expr lu_inverse(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::LuInverse, row, col, matrix, {}, {row.symbol(), col.symbol()});
}
Expr determinant(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::Determinant, row, col, matrix, {}, {});
}
Expr log_abs_determinant(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::LogAbsDeterminant, row, col, matrix, {}, {});
}
Expr eigenvalues(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::Eigenvalues, row, col, matrix, {}, {col.symbol()});
}
Expr qr_q(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::QrQ, row, col, matrix, {}, {row.symbol(), col.symbol()});
}
Expr qr_r(const Index& row, const Index& col, const Expr& matrix, const Expr& i, const Expr& j) {
  return matrix_element(LinearAlgebraKind::QrR, row, col, matrix, {}, {to_affine(i), to_affine(j)});
}
Expr singular_values(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::SingularValues, row, col, matrix, {}, {col.symbol()});
}
Expr svd_u(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::Svd, row, col, matrix, {}, {row.symbol(), col.symbol()});
}
Expr svd_v(const Index& row, const Index& col, const Expr& matrix, const Expr& c, const Expr& t) {
  const Expr u = svd_u(row, col, matrix);
  return with_element(u, {u->size.rows + to_affine(c), to_affine(t)});
}
Expr eigenvectors(const Index& row, const Index& col, const Expr& matrix) {
  return matrix_element(LinearAlgebraKind::Eigenvectors, row, col, matrix, {}, {row.symbol(), col.symbol()});
}

Expr randn(std::int64_t stream, const std::vector<Expr>& coordinates) {
  return random(RandomKind::Normal, stream, to_affine(coordinates));
}
Expr randu(std::int64_t stream, const std::vector<Expr>& coordinates) {
  return random(RandomKind::Uniform, stream, to_affine(coordinates));
}

}  // namespace moxie
