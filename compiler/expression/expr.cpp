#include "compiler/expression/expr.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/expression/functions.h"
#include "compiler/expression/interning.h"
#include "compiler/expression/node_map.h"
#include "compiler/expression/reductions.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"

namespace moxie {

const char* to_string(ReduceKind kind) {
  static constexpr const char* names[] = {"sum", "prod", "max", "min", "logsumexp", "argmax", "argmin"};
  return names[static_cast<int>(kind)];
}
const char* to_string(LinearAlgebraKind kind) {
  static constexpr const char* names[] = {"cholesky",
                                          "inverse",
                                          "logdet",
                                          "solve",
                                          "tri_solve",
                                          "tri_solve_transposed",
                                          "cholesky_inverse",
                                          "lu_solve",
                                          "lu_solve_transposed",
                                          "lu_inverse",
                                          "determinant",
                                          "log_abs_determinant",
                                          "eigenvalues",
                                          "eigenvectors",
                                          "qr_q",
                                          "qr_r",
                                          "singular_values",
                                          "svd",
                                          "sort",
                                          "argsort"};
  return names[static_cast<int>(kind)];
}
const char* to_string(RandomKind kind) { return kind == RandomKind::Normal ? "randn" : "randu"; }

bool Node::depends_on(Symbol symbol) const { return std::ranges::binary_search(free_symbols, symbol); }

namespace {

Node blank(NodeKind kind) {
  Node node;
  node.kind = kind;
  return node;
}

std::uint32_t max_height(std::span<const Expr> args) {
  std::uint32_t height = 0;
  for (const Expr& arg : args) height = std::max(height, arg->height);
  return height;
}

Expr n_ary(const ScalarFunction& f, const Expr& a, const Expr& b) {
  std::vector<Expr> args;
  if (a->kind == NodeKind::Call && a->function == &f)
    args = a->args;
  else
    args.push_back(a);
  args.push_back(b);
  return call(f, std::move(args));
}

}  // namespace

Expr::Expr(double value) : Expr(constant(value)) {}

Expr constant(double value) {
  Node node = blank(NodeKind::Constant);
  node.value = without_nan_sign(value);  // so that all are one node
  return intern(std::move(node));
}

Expr index_value(Affine value) {
  Node node = blank(NodeKind::IndexValue);
  node.affine = std::move(value);
  return intern(std::move(node));
}

namespace {

/// Numbers the values that subscripts depend on by where they stand in the text, equal ones alike, so that an access is
/// one node however it came about.
void number_values(Node& access) {
  std::vector<Expr> values;
  std::vector<std::optional<Affine>> numbers(access.args.size());
  const auto note = [&](const Affine& subscript, bool negative) {
    for (const auto& [symbol, coefficient] : subscript.terms()) {
      if (!symbol.is_value() || (coefficient < 0) != negative || numbers.at(symbol.number())) continue;
      const auto known = std::ranges::find(values, access.args[symbol.number()]);
      numbers[symbol.number()] = Symbol::value(static_cast<std::uint32_t>(known - values.begin()));
      if (known == values.end()) values.push_back(access.args[symbol.number()]);
    }
  };
  for (const Affine& subscript : access.subscripts) {
    note(subscript, false);
    note(subscript, true);
  }
  for (Affine& subscript : access.subscripts) {
    subscript = subscript.substitute(
        [&](Symbol symbol) { return symbol.is_value() ? &*numbers.at(symbol.number()) : nullptr; });
  }
  access.args = std::move(values);
}

}  // namespace

Expr tensor_access(std::string tensor, std::vector<Affine> subscripts, std::vector<Expr> values) {
  Node node = blank(NodeKind::Access);
  node.tensor = std::move(tensor);
  node.subscripts = std::move(subscripts);
  node.args = std::move(values);
  if (!node.args.empty()) number_values(node);
  return intern(std::move(node));
}

Expr access_to(std::string tensor, const Expr& access) {
  return tensor_access(std::move(tensor), access->subscripts, access->args);
}

Expr subscript_value(const Expr& access, std::size_t axis) {
  Affine known = access->subscripts.at(axis);
  std::vector<Expr> terms;
  for (const auto& [symbol, coefficient] : access->subscripts[axis].terms()) {
    if (!symbol.is_value()) continue;
    known += Affine(symbol) * -coefficient;
    const Expr& value = access->args.at(symbol.number());
    terms.push_back(coefficient == 1 ? value : Expr(static_cast<double>(coefficient)) * value);
  }
  if (terms.empty()) return index_value(known);
  if (known != Affine(0))
    terms.push_back(known.is_constant() ? Expr(static_cast<double>(known.constant())) : index_value(known));
  return terms.size() == 1 ? terms[0] : call("+", std::move(terms));
}

Expr call(const ScalarFunction& f, std::vector<Expr> args) {
  const bool fits = f.arity < 0 ? args.size() >= 2 : args.size() == static_cast<std::size_t>(f.arity);
  if (!fits) throw InternalError("wrong number of arguments for " + std::string(f.name));
  Node node = blank(NodeKind::Call);
  node.function = &f;
  node.args = std::move(args);
  return intern(std::move(node));
}

Expr call(std::string_view name, std::vector<Expr> args) { return call(function(name), std::move(args)); }

Expr reduce(ReduceKind kind, Symbol index, const Range& range, const Expr& body, const Expr& position) {
  Node node = blank(NodeKind::Reduce);
  node.reduce = kind;
  node.range = range;
  node.args = {body};
  if (extremum_of(kind)) node.args.push_back(position ? position : index_value(index));
  node.height = max_height(node.args) + 1;
  for (Expr& arg : node.args) arg = substitute(arg, {{index, Symbol::bound(node.height)}});
  return intern(std::move(node));
}

Expr linear_algebra(LinearAlgebraKind kind, Symbol row, Symbol col, const MatrixSize& size, const Expr& matrix,
                    const Expr& rhs, std::vector<Affine> element) {
  Node node = blank(NodeKind::LinearAlgebra);
  node.args = {matrix};
  if (rhs) node.args.push_back(rhs);
  node.height = max_height(node.args) + 2;
  for (Expr& arg : node.args)
    arg = substitute(arg, {{row, Symbol::bound(node.height)}, {col, Symbol::bound(node.height - 1)}});
  node.algebra = kind;
  node.size = size;
  node.subscripts = std::move(element);
  return intern(std::move(node));
}

Expr sorted_row(LinearAlgebraKind kind, Symbol index, const Affine& size, const Expr& row, const Affine& element) {
  return linear_algebra(kind, index, Symbol::fresh(), size, row, Expr(), {element});
}

Expr random(RandomKind kind, std::int64_t stream, std::vector<Affine> coordinates) {
  Node node = blank(NodeKind::Random);
  node.random = kind;
  node.stream = stream;
  node.subscripts = std::move(coordinates);
  return intern(std::move(node));
}

Expr operator+(const Expr& a, const Expr& b) { return n_ary(function("+"), a, b); }
Expr operator*(const Expr& a, const Expr& b) { return n_ary(function("*"), a, b); }
Expr operator/(const Expr& a, const Expr& b) { return call("/", {a, b}); }
Expr operator-(const Expr& a) { return call("neg", {a}); }
Expr operator-(const Expr& a, const Expr& b) { return a + (-b); }

OpenedReduce open(const Expr& reduction) {
  const Symbol index = Symbol::fresh();
  const Replacement opened = {{Symbol::bound(reduction->height), index}};
  return {index, reduction->range, substitute(reduction->args[0], opened),
          reduction->args.size() > 1 ? substitute(reduction->args[1], opened) : Expr()};
}

Expr map_opened(const Expr& reduction, const OpenedReduce& opened, const std::function<Expr(const Expr&)>& f) {
  const Expr body = f(opened.body);
  const Expr position = opened.position ? f(opened.position) : Expr();
  if (body == opened.body && position == opened.position) return reduction;
  return reduce(reduction->reduce, opened.index, opened.range, body, position);
}

OpenedLinearAlgebra open_algebra(const Expr& algebra) {
  const Symbol row = Symbol::fresh();
  const Symbol col = Symbol::fresh();
  const Replacement opened = {{Symbol::bound(algebra->height), row}, {Symbol::bound(algebra->height - 1), col}};
  return {row, col, substitute(algebra->args[0], opened),
          algebra->args.size() > 1 ? substitute(algebra->args[1], opened) : Expr()};
}

namespace {

/// Rebuilds a node whose children, subscripts and ranges were changed; binders close over their own bound symbols
/// again.
class Substitution {
 public:
  explicit Substitution(const Replacement& replacement) : replacement_(replacement) {}

  Expr apply(const Expr& expr) {
    if (!touches(*expr)) return expr;
    if (const Expr* known = done_.find(expr.get())) return *known;
    Node node = blank(expr->kind);
    node.value = expr->value;
    node.tensor = expr->tensor;
    node.function = expr->function;
    node.reduce = expr->reduce;
    node.algebra = expr->algebra;
    node.random = expr->random;
    node.stream = expr->stream;
    node.affine = apply(expr->affine);
    if (expr->kind == NodeKind::LinearAlgebra) node.size = {apply(expr->size.rows), apply(expr->size.columns)};
    if (expr->kind == NodeKind::Reduce) node.range = expr->range.substitute(lookup());
    node.subscripts.reserve(expr->subscripts.size());
    for (const Affine& subscript : expr->subscripts) node.subscripts.push_back(apply(subscript));
    // Heights do not change, since no replacement brings in a reduction.
    if (expr->kind == NodeKind::Reduce || expr->kind == NodeKind::LinearAlgebra) node.height = expr->height;
    node.args.reserve(expr->args.size());
    for (const Expr& arg : expr->args) node.args.push_back(apply(arg));
    if (reads_by_value(expr)) number_values(node);
    return done_.emplace(expr.get(), intern(std::move(node)));
  }

 private:
  std::function<const Affine*(Symbol)> lookup() const {
    return [this](Symbol symbol) -> const Affine* {
      for (const auto& [from, to] : replacement_) {
        if (from == symbol) return &to;
      }
      return nullptr;
    };
  }
  Affine apply(const Affine& affine) const { return affine.is_constant() ? affine : affine.substitute(lookup()); }
  bool touches(const Node& node) const {
    return std::ranges::any_of(replacement_, [&](const auto& pair) { return node.depends_on(pair.first); });
  }

  const Replacement& replacement_;
  NodeMap<Expr> done_;
};

}  // namespace

Replacement axes_by_subscripts(const Expr& access) {
  Replacement axes;
  for (std::uint32_t k = 0; k < access->subscripts.size(); ++k)
    axes.emplace_back(Symbol::axis(k), access->subscripts[k]);
  return axes;
}

Expr substitute(const Expr& expr, const Replacement& replacement) {
  // A definition that is read at the reader's own axes is replaced by its body as it stands.
  const auto is_identity = [](const auto& entry) { return entry.second.as_symbol() == entry.first; };
  if (std::ranges::none_of(replacement, is_identity)) return Substitution(replacement).apply(expr);
  Replacement changes;
  std::ranges::copy_if(replacement, std::back_inserter(changes),
                       [&](const auto& entry) { return !is_identity(entry); });
  return Substitution(changes).apply(expr);
}

Expr with_args(const Expr& expr, std::vector<Expr> args) {
  if (args == expr->args) return expr;
  Node node = *expr;
  node.free_symbols.clear();
  node.args = std::move(args);
  if (reads_by_value(expr)) number_values(node);
  if (node.kind != NodeKind::Reduce && node.kind != NodeKind::LinearAlgebra) node.height = 0;
  return intern(std::move(node));
}

Expr with_element(const Expr& algebra, std::vector<Affine> element) {
  Node node = *algebra;
  node.free_symbols.clear();
  node.subscripts = std::move(element);
  return intern(std::move(node));
}

Expr map_children(const Expr& expr, const std::function<Expr(const Expr&)>& f) {
  if (expr->kind == NodeKind::Reduce) return map_opened(expr, open(expr), f);
  if (expr->kind == NodeKind::LinearAlgebra) {
    const OpenedLinearAlgebra opened = open_algebra(expr);
    const Expr matrix = f(opened.matrix);
    const Expr rhs = opened.rhs ? f(opened.rhs) : Expr();
    if (matrix == opened.matrix && rhs == opened.rhs) return expr;
    return linear_algebra(expr->algebra, opened.row, opened.col, expr->size, matrix, rhs, expr->subscripts);
  }
  std::vector<Expr> args;
  args.reserve(expr->args.size());
  for (const Expr& arg : expr->args) args.push_back(f(arg));
  return with_args(expr, std::move(args));
}

namespace {

void visit(const Expr& expr, const std::function<void(const Expr&)>& f, NodeSet& seen) {
  if (!seen.insert(expr.get())) return;
  for (const Expr& arg : expr->args) visit(arg, f, seen);
  f(expr);
}

}  // namespace

void visit(const Expr& expr, const std::function<void(const Expr&)>& f) {
  NodeSet seen;
  visit(expr, f, seen);
}

bool depends_on_values(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Access || e->kind == NodeKind::Random; });
  return found;
}

namespace {

/// Bound indices of outer reductions have larger heights, free ones that were opened first smaller numbers.
std::strong_ordering order(Symbol a, Symbol b) {
  return a.kind() == Symbol::Kind::Bound && b.kind() == Symbol::Kind::Bound ? b <=> a : a <=> b;
}

std::strong_ordering order(const Affine& a, const Affine& b) {
  return std::lexicographical_compare_three_way(a.terms().begin(), a.terms().end(), b.terms().begin(), b.terms().end(),
                                                [](const Affine::Term& x, const Affine::Term& y) {
                                                  const auto by_symbol = order(x.first, y.first);
                                                  return by_symbol != 0 ? by_symbol : x.second <=> y.second;
                                                });
}

std::strong_ordering order(const Expr& a, const Expr& b) {
  if (a == b) return std::strong_ordering::equal;
  if (const auto by_shape = a->shape_hash <=> b->shape_hash; by_shape != 0) return by_shape;
  if (const auto by_affine = order(a->affine, b->affine); by_affine != 0) return by_affine;
  for (std::size_t i = 0; i < std::min(a->subscripts.size(), b->subscripts.size()); ++i) {
    if (const auto by_subscript = order(a->subscripts[i], b->subscripts[i]); by_subscript != 0) return by_subscript;
  }
  for (std::size_t i = 0; i < std::min(a->args.size(), b->args.size()); ++i) {
    if (const auto by_arg = order(a->args[i], b->args[i]); by_arg != 0) return by_arg;
  }
  // The second step of a scan before the tenth.
  if (const auto by_length = a->tensor.size() <=> b->tensor.size(); by_length != 0) return by_length;
  if (const auto by_name = a->tensor <=> b->tensor; by_name != 0) return by_name;
  return a->hash <=> b->hash;
}

}  // namespace

bool precedes(const Expr& a, const Expr& b) { return order(a, b) < 0; }

}  // namespace moxie
