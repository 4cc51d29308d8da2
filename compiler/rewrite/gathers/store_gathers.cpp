#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "compiler/analysis/value_range.h"
#include "compiler/expression/contraction_path.h"
#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"
#include "compiler/rewrite/patterns/product_form.h"
#include "compiler/rewrite/patterns/scatter.h"
#include "compiler/rewrite/products/order_contractions.h"

namespace moxie {
namespace {

/// Readers of each stored element, and terms of each stored sum, from which the stores pay: a vector of them.
constexpr double kVector = 16;

/// An element by value, or such a one under a condition.
bool is_selected(const Expr& expr) {
  const bool is_masked = is_call(expr, "where") && expr->args[2]->is_constant(0);
  const Expr& element = is_masked ? expr->args[1] : expr;
  return element->kind == NodeKind::Access && element->gathers;
}

/// The scope without indices that the row does not depend on; those of the access come first, in its order.
Scope rows_of(const Expr& row, const Scope& scope) {
  const Expr& access = is_call(row, "where") ? row->args[1] : row;
  std::vector<Symbol> symbols;
  const std::function<void(const Affine&)> take = [&](const Affine& subscript) {
    for (const auto& [symbol, factor] : subscript.terms()) {
      if (symbol.kind() == Symbol::Kind::Value)
        std::ranges::for_each(access->args[symbol.number()]->subscripts, take);
      else if (scope.find(symbol) && !is_among(symbols, symbol))
        symbols.push_back(symbol);
    }
  };
  std::ranges::for_each(access->subscripts, take);
  for (const Symbol symbol : open_symbols_of(row, scope)) {
    if (!is_among(symbols, symbol)) symbols.push_back(symbol);
  }
  Scope result = scope;
  result.open.clear();
  for (const Symbol symbol : symbols) result = result.with(symbol, *scope.find(symbol));
  return result;
}

/// Where an element by value lies outside of the tensor, 0 stands in its place: nobody needs the element then, but not
/// all that it is stored for knows that. Nothing for subscripts that are not values alone.
std::optional<Expr> guarded_by_bounds(const Program& program, const Expr& access) {
  if (is_call(access, "where")) {
    const auto inner = guarded_by_bounds(program, access->args[1]);
    return inner ? std::optional(call("where", {access->args[0], *inner, access->args[2]})) : std::nullopt;
  }
  const std::vector<Affine> extents = program.shape_of(access->tensor);
  std::vector<Expr> bounds;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    if (!access->subscripts[k].mentions_value()) continue;
    const auto symbol = access->subscripts[k].as_symbol();
    if (!symbol) return std::nullopt;
    const Expr& value = access->args[symbol->number()];
    bounds.push_back(call("<=", {constant(0), value}));
    bounds.push_back(call("<", {value, index_value(extents[k])}));
  }
  return call("where", {call("and", bounds), access, constant(0)});
}

/// Splits large sums of products in which rows are selected by value.
class SelectedRows {
 public:
  SelectedRows(Program& known, const Definition& user)
      : program_(known), algebra_(known), user_(user), room_(room_beside(largest_tensor(known))) {}

  Expr with_stored_rows() {
    return rewrite_outer_sums(user_, [this](const Expr& sum, const Scope& around) -> std::optional<Expr> {
      return sum->gathers ? stored_rows(flat_sum(algebra_, sum, around), around.open.size()) : std::nullopt;
    });
  }

  Expr with_sums_before() {
    return rewrite_outer_sums(user_, [this](const Expr& sum, const Scope& around) -> std::optional<Expr> {
      const FlatSum flat = flat_sum(algebra_, sum, around);
      const bool is_masked = flat.factors.size() == 1 && is_call(flat.factors[0].base, "where");
      return is_masked ? sums_before(sum, flat, around) : std::nullopt;
    });
  }

 private:
  bool is_large(const FlatSum& flat) const {
    return iterations_of(flat.scope) >= kSmallestProduct && is_box(flat.scope);
  }

  /// Rows that a factor reads by value become a tensor of their own, where each is read often and multiplied as a
  /// matrix: a library may do that then.
  std::optional<Expr> stored_rows(const FlatSum& flat, std::size_t around) {
    if (flat.factors.size() < 2 || flat.scope.open.size() > 64 || !is_large(flat)) return std::nullopt;
    FlatSum stored = flat;
    bool stores = false;
    for (const std::size_t k : matrices_in(flat, around)) {
      Expr& base = stored.factors[k].base;
      if (!is_selected(base) || iterations(base, flat.scope, false) < kVector || iterations(base, flat.scope) > room_)
        continue;
      auto part = extract(program_, rows_of(base, flat.scope), base, user_.name + ".rows", flat.scope.dtype,
                          ExtractedAxes::as_open);
      if (part) base = add_part(program_, std::move(*part), user_);
      stores |= part.has_value();
    }
    return stores ? std::optional(as_expression(stored)) : std::nullopt;
  }

  /// The factors that the cheapest order multiplies by another one with which they have no index in common but those
  /// that are summed over then.
  std::vector<std::size_t> matrices_in(const FlatSum& flat, std::size_t around) const {
    Contraction contraction;
    for (const auto& [symbol, range] : flat.scope.open) contraction.extents.push_back(assumed_extent(range));
    contraction.result = (IndexSet{1} << around) - 1;
    for (const Factor& factor : flat.factors) {
      IndexSet own = 0;
      for (std::size_t k = 0; k < flat.scope.open.size(); ++k)
        own |= IndexSet{factor.base->depends_on(flat.scope.open[k].first)} << k;
      contraction.factors.push_back(own);
    }
    const auto path = cheapest_path(contraction, room_);
    if (!path) return {};
    const std::vector<IndexSet> operands = operands_of(contraction, *path);
    std::vector<std::size_t> found;
    for (std::size_t step = 0; step < path->steps.size(); ++step) {
      const auto [one, other] = path->steps[step];
      if ((operands[one] & operands[other] & operands[flat.factors.size() + step]) != 0) continue;
      for (const std::size_t k : {one, other}) {
        if (k < flat.factors.size()) found.push_back(k);
      }
    }
    return found;
  }

  Expr as_expression(const FlatSum& flat) const {
    return algebra_.scaled(summed(flat.summed, algebra_.make_product({1, flat.factors}), flat), flat.coefficient);
  }

  /// Terms go where values say: what a sum over other indices adds up for each of them is a definition, and each goes
  /// there once. `sum[t,v](where(x[t] == k, a[t,v]*b[d,v], 0))` becomes `sum[t](where(x[t] == k, c[t,d], 0))`.
  std::optional<Expr> sums_before(const Expr& sum, const FlatSum& flat, const Scope& around) {
    const Expr& where = flat.factors[0].base;
    const auto scatter = scatter_of(program_, sum, around);
    if (!scatter || flat.factors[0].power != 1 || !where->args[2]->is_constant(0)) return std::nullopt;
    std::vector<Symbol> selected, inner;
    for (const Symbol index : flat.summed) (where->args[0]->depends_on(index) ? selected : inner).push_back(index);
    Expr term = summed(inner, where->args[1], flat);
    if (!is_sum(term) || depends_on_any(term, targets_of(*scatter))) return std::nullopt;
    const Scope scope = alone(term, flat.scope);
    const FlatSum terms = flat_sum(algebra_, term, scope);
    const auto is_masked = [](const Factor& f) { return is_call(f.base, "where") && !is_selected(f.base); };
    if (terms.factors.size() < 2 || std::ranges::any_of(terms.factors, is_masked)) return std::nullopt;
    if (!is_large(terms) || iterations_of(terms.scope) < kVector * iterations_of(scope) || iterations_of(scope) > room_)
      return std::nullopt;
    if (term->gathers) {
      const auto guarded = with_guarded_rows(terms);
      if (!guarded) return std::nullopt;
      term = as_expression(*guarded);
    }
    auto part = extract(program_, in_order_of_reads(scope, term), term, user_.name + ".sum", around.dtype);
    if (!part) return std::nullopt;
    const Expr read = add_part(program_, std::move(*part), user_);
    const Expr choice = call("where", {where->args[0], read, constant(0)});
    return algebra_.scaled(summed(selected, choice, flat), flat.coefficient);
  }

  std::optional<FlatSum> with_guarded_rows(FlatSum flat) const {
    for (Factor& factor : flat.factors) {
      if (!factor.base->gathers) continue;
      const auto guarded = is_selected(factor.base) ? guarded_by_bounds(program_, factor.base) : std::nullopt;
      if (!guarded) return std::nullopt;
      factor.base = *guarded;
    }
    return flat;
  }

  static std::vector<Symbol> targets_of(const Scatter& scatter) {
    std::vector<Symbol> targets;
    for (const Scatter::Target& target : scatter.targets) targets.push_back(target.axis);
    if (scatter.span) targets.push_back(scatter.span->axis);
    return targets;
  }

  /// The scope without indices that the expression does not depend on.
  static Scope alone(const Expr& expr, Scope scope) {
    std::erase_if(scope.open, [&](const auto& entry) { return !expr->depends_on(entry.first); });
    return scope;
  }

  static double iterations_of(const Scope& scope) {
    double count = 1;
    for (const auto& [symbol, range] : scope.open) count *= assumed_extent(range);
    return count;
  }

  Program& program_;
  const Algebra algebra_;
  const Definition& user_;
  const double room_;  // elements of a tensor that is stored
};

}  // namespace

Program sum_before_scatters(const Program& program) {
  if (!has_integers(program)) return program;
  return split_bodies(program, [](Program& known, const Definition& definition) {
    return definition.scan ? definition.body : SelectedRows(known, definition).with_sums_before();
  });
}

Program store_gathers(const Program& program) {
  if (!has_integers(program)) return program;
  return split_bodies(program, [](Program& known, const Definition& definition) {
    return definition.scan ? definition.body : SelectedRows(known, definition).with_stored_rows();
  });
}

}  // namespace moxie
