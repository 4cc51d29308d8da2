#include <algorithm>

#include "compiler/rewrite/algebra.h"
#include "compiler/rewrite/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// An operand is worth its place in memory if every element of it is used about this often.
constexpr double kLeastReuse = 16;

/// A sum over one index or several.
struct OpenedSum {
  Scope scope;  // around it, and its own indices
  std::vector<Symbol> summed;
  Expr body;
};

OpenedSum open_sum(Expr sum, Scope scope) {
  OpenedSum result{std::move(scope), {}, std::move(sum)};
  while (result.body->kind == NodeKind::Reduce && result.body->reduce == ReduceKind::Sum) {
    const OpenedReduce opened = open(result.body);
    result.scope = result.scope.with(opened.index, opened.range);
    result.summed.push_back(opened.index);
    result.body = opened.body;
  }
  return result;
}

/// The order in which an access of the body has the summed indices, if any has all of them: such tensors can then be
/// read as they lie.
std::vector<Symbol> order_in_memory(const OpenedSum& sum) {
  std::vector<Symbol> order = sum.summed;
  visit(sum.body, [&](const Expr& e) {
    if (e->kind != NodeKind::Access) return;
    std::vector<Symbol> found;
    for (const Affine& subscript : e->subscripts) {
      const auto symbol = subscript.as_symbol();
      if (symbol && std::ranges::find(sum.summed, *symbol) != sum.summed.end()) found.push_back(*symbol);
    }
    if (std::ranges::is_permutation(found, sum.summed)) order = found;
  });
  return order;
}

/// One factor of a matrix product: a matrix over axes of the result and the summed indices, in a scan one for every
/// step.
struct Side {
  std::vector<Symbol> axes;
  Product factors;
};

double rounds(const std::vector<Symbol>& symbols, const Scope& scope) {
  double total = 1;
  for (const Symbol symbol : symbols) total *= assumed_extent(*scope.find(symbol));
  return total;
}

bool depends_on_any(const Expr& expr, const std::vector<Symbol>& symbols) {
  return std::ranges::any_of(symbols, [&](Symbol symbol) { return expr->depends_on(symbol); });
}

class ProductSplitter {
 public:
  ProductSplitter(Program& names, std::vector<Definition>& parts, const Definition& user)
      : program_(names), algebra_(names), parts_(parts), user_(user) {}

  Expr run() {
    return rewrite_top_down(user_.body, Scope::of(user_),
                            [this](const Expr& e, const Scope& scope) -> std::optional<Expr> {
                              const bool is_outermost = scope.open.size() == user_.axes.size();
                              if (!is_outermost || e->kind != NodeKind::Reduce || e->reduce != ReduceKind::Sum)
                                return std::nullopt;
                              const std::size_t known_names = program_.definitions.size();
                              const std::size_t known_parts = parts_.size();
                              const auto result = split(e, scope);
                              if (result) return result;
                              program_.definitions.resize(known_names);
                              parts_.resize(known_parts);
                              return std::nullopt;
                            });
  }

 private:
  /// The sum as a combination of matrix products, if it is one.
  std::optional<Expr> split(const Expr& expr, const Scope& around) {
    const OpenedSum sum = open_sum(expr, around);
    dtype_ = around.dtype;
    std::vector<Symbol> axes = open_symbols_of(expr, around);
    if (user_.scan) std::erase(axes, Symbol::axis(0));
    const bool is_large = rounds(axes, sum.scope) * rounds(sum.summed, sum.scope) >= kSmallestProduct;
    if (!is_large ||
        !std::ranges::all_of(sum.scope.open, [](const auto& entry) { return entry.second.as_extent().has_value(); }))
      return std::nullopt;
    const std::vector<Term> terms = algebra_.terms_of(sum.body);
    const Product whole = algebra_.product_of(user_.body);
    const bool is_body =
        terms.size() == 1 && whole.factors.size() == 1 && whole.factors[0].base == expr && whole.factors[0].power == 1;
    if (!algebra_.may_be_summed_apart(terms)) return std::nullopt;
    std::vector<Term> total;
    bool has_product = false;
    for (const Term& term : terms) {
      auto part = matrix_product(sum, axes, term.product);
      const bool is_product = part.has_value();
      has_product |= is_product;
      if (!part) part = smaller_sum(sum, axes, term.product);
      if (part && !is_body) part = define(around, *part, is_product ? ".product" : ".sum");
      if (!part) return std::nullopt;
      total.push_back({term.coefficient, *part});
    }
    return has_product ? std::optional(algebra_.make_sum(std::move(total))) : std::nullopt;
  }

  /// The sum of a term that is the same along one of the axes: next to products, it is computed once for all of that
  /// axis.
  static std::optional<Expr> smaller_sum(const OpenedSum& sum, const std::vector<Symbol>& axes, const Expr& term) {
    if (std::ranges::all_of(axes, [&](Symbol axis) { return term->depends_on(axis); })) return std::nullopt;
    return summed(sum, term);
  }

  static Expr summed(const OpenedSum& sum, Expr term) {
    for (auto index = sum.summed.rbegin(); index != sum.summed.rend(); ++index)
      term = reduce(ReduceKind::Sum, *index, *sum.scope.find(*index), term);
    return term;
  }

  /// The sum of one product, with both operands as tensors.
  std::optional<Expr> matrix_product(const OpenedSum& sum, const std::vector<Symbol>& axes, const Expr& product) {
    auto sides = sides_of(sum, axes, algebra_.product_of(product));
    if (!sides) return std::nullopt;
    const std::vector<Symbol> order = order_in_memory(sum);
    const auto left = operand(sum, order, sides->first, rounds(sides->second.axes, sum.scope));
    const auto right = left ? operand(sum, order, sides->second, rounds(sides->first.axes, sum.scope)) : std::nullopt;
    if (!right) return std::nullopt;
    return summed(sum, algebra_.times(*left, *right));
  }

  /// The factors shared out to the first and the last of the axes.
  static std::optional<std::pair<Side, Side>> sides_of(const OpenedSum& sum, const std::vector<Symbol>& axes,
                                                       const Product& product) {
    for (auto middle = axes.begin() + (axes.empty() ? 0 : 1); middle != axes.end(); ++middle) {
      Side left{{axes.begin(), middle}, {product.coefficient, {}}};
      Side right{{middle, axes.end()}, {1, {}}};
      const bool right_is_smaller = rounds(right.axes, sum.scope) < rounds(left.axes, sum.scope);
      bool fits = true;
      for (const Factor& factor : product.factors) {
        const bool in_left = depends_on_any(factor.base, left.axes);
        const bool in_right = depends_on_any(factor.base, right.axes);
        fits &= !(in_left && in_right);
        const bool goes_right = in_right || (!in_left && right_is_smaller);
        (goes_right ? right : left).factors.factors.push_back(factor);
      }
      if (fits) return std::pair(std::move(left), std::move(right));
    }
    return std::nullopt;
  }

  /// The side as an access: of a tensor that is there, or of a new one if that is worth it.
  std::optional<Expr> operand(const OpenedSum& sum, const std::vector<Symbol>& order, const Side& side, double reuse) {
    const Expr expr = algebra_.make_product(side.factors);
    std::vector<Symbol> wanted = side.axes;
    wanted.insert(wanted.end(), order.begin(), order.end());
    if (!std::ranges::all_of(wanted, [&](Symbol symbol) { return expr->depends_on(symbol); })) return std::nullopt;
    std::vector<Symbol> other = order;
    other.insert(other.end(), side.axes.begin(), side.axes.end());
    if (is_whole_tensor(sum.scope, expr, wanted) || is_whole_tensor(sum.scope, expr, other)) return expr;
    if (reuse < kLeastReuse || !has_one_dtype(expr)) return std::nullopt;
    Scope scope;
    const auto open_axis = [&](Symbol symbol) { scope = scope.with(symbol, *sum.scope.find(symbol)); };
    if (user_.scan) open_axis(Symbol::axis(0));
    std::ranges::for_each(lies_by(expr, side.axes) ? other : wanted, open_axis);
    return define(scope, expr, ".operand");
  }

  bool is_whole_tensor(const Scope& scope, const Expr& expr, std::vector<Symbol> symbols) const {
    if (expr->kind != NodeKind::Access || program_.dtype_of(expr->tensor) != dtype_) return false;
    if (user_.scan && expr->depends_on(Symbol::axis(0))) symbols.insert(symbols.begin(), Symbol::axis(0));
    const std::vector<Affine> shape = program_.shape_of(expr->tensor);
    if (expr->subscripts != std::vector<Affine>(symbols.begin(), symbols.end())) return false;
    for (std::size_t k = 0; k < symbols.size(); ++k) {
      if (scope.find(symbols[k])->as_extent() != shape[k]) return false;
    }
    return true;
  }

  /// Whether what the operand is made of lies with one of the axes fastest.
  static bool lies_by(const Expr& expr, const std::vector<Symbol>& axes) {
    int votes = 0;
    visit(expr, [&](const Expr& e) {
      if (e->kind != NodeKind::Access || e->subscripts.empty()) return;
      const bool by_axis =
          std::ranges::any_of(axes, [&](Symbol symbol) { return e->subscripts.back().mentions(symbol); });
      votes += by_axis ? 1 : -1;
    });
    return votes > 0;
  }

  bool has_one_dtype(const Expr& expr) const {
    bool same = true;
    visit(expr, [&](const Expr& e) {
      same &= e->kind != NodeKind::Access || program_.dtype_of(e->tensor) == dtype_;
      same &= !is_call(e, "f32") && !is_call(e, "f64");
    });
    return same;
  }

  std::optional<Expr> define(const Scope& scope, const Expr& expr, const char* suffix) {
    auto part = extract(program_, scope, expr, user_.name + suffix, dtype_);
    if (!part) return std::nullopt;
    part->definition.line = user_.line;
    join_scan(*part, user_);
    program_.definitions.push_back(part->definition);
    parts_.push_back(std::move(part->definition));
    return part->read;
  }

  Program& program_;
  const Algebra algebra_;
  std::vector<Definition>& parts_;
  const Definition& user_;
  DType dtype_ = DType::f32;  // in which the sum is computed
};

}  // namespace

Program split_products(const Program& program) {
  Program result = program;
  result.definitions.clear();
  Program names = program;  // for unused names
  for (Definition definition : program.definitions) {
    std::vector<Definition> parts;
    if (definition.body->kind != NodeKind::LinearAlgebra)
      definition.body = ProductSplitter(names, parts, definition).run();
    std::ranges::move(parts, std::back_inserter(result.definitions));
    result.definitions.push_back(std::move(definition));
  }
  return leave_scans(result);
}

}  // namespace moxie
