#include <algorithm>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"
#include "compiler/rewrite/patterns/window.h"
#include "compiler/rewrite/products/split_products.h"

namespace moxie {
namespace {

/// A sum with a range that axes move, y[t] = sum[d, k in max(t-T+1,0)..min(t+1,K)](w[d,k]*g[d,t-k]): the gradient of a
/// convolution is one. No library has it. But p[k,j] = sum[d](w[d,k]*g[d,j]) is a matrix product for all positions j,
/// and y[t] = sum[k](p[k,t-k]) reads each of its elements at most once. Of heads that share keys by groups, y[g] =
/// sum[d, k in 4*g..4*g+4](w[d,k]*g[d,k]), nothing but the range moves, and p[k] = sum[d](w[d,k]*g[d,k]).
struct ShiftedSum {
  Scope scope;                                // around the sum, and its own indices
  std::vector<Symbol> ragged, plain, moving;  // k, d and t
  Product outside, inside;                    // factors without plain indices, and with them
};

/// The symbols of the scope that move an end of the range.
std::vector<Symbol> movers_of(const Range& range, const Scope& scope) {
  std::vector<Symbol> movers;
  for (const auto& [symbol, other] : scope.open) {
    if (mentions(range, symbol)) movers.push_back(symbol);
  }
  return movers;
}

/// The bounds that no symbol of the scope moves.
std::optional<Range> box_of(const Range& range, const Scope& scope) {
  Range box = range;
  const auto moves = [&](const Bound& bound) {
    return std::ranges::any_of(scope.open, [&](const auto& entry) { return bound.value.mentions(entry.first); });
  };
  std::erase_if(box.lows, moves);
  std::erase_if(box.highs, moves);
  return box.lows.empty() || box.highs.empty() ? std::nullopt : std::optional(box);
}

std::optional<ShiftedSum> shifted_sum(const Algebra& algebra, const Expr& expr, const Scope& around) {
  ShiftedSum sum{around, {}, {}, {}, {}, {1, {}}};
  std::vector<Symbol> summed;
  Expr body = expr;
  while (body->kind == NodeKind::Reduce && body->reduce == ReduceKind::Sum) {
    const OpenedReduce opened = open(body);
    for (const Symbol mover : movers_of(opened.range, sum.scope)) {
      if (is_among(summed, mover)) return std::nullopt;
      if (!is_among(sum.moving, mover)) sum.moving.push_back(mover);
    }
    (movers_of(opened.range, sum.scope).empty() ? sum.plain : sum.ragged).push_back(opened.index);
    summed.push_back(opened.index);
    sum.scope = sum.scope.with(opened.index, opened.range);
    body = opened.body;
  }
  if (sum.ragged.empty() || sum.plain.empty()) return std::nullopt;
  Product product = algebra.product_of(body);
  sum.outside.coefficient = product.coefficient;
  for (Factor& factor : product.factors)
    (depends_on_any(factor.base, sum.plain) ? sum.inside : sum.outside).factors.push_back(std::move(factor));
  return sum;
}

class ShiftedSumSplitter {
 public:
  ShiftedSumSplitter(Program& known, const Definition& user) : program_(known), algebra_(known), user_(user) {}

  Expr run() {
    if (user_.scan) return user_.body;
    return rewrite_outer_sums(user_, [this](const Expr& sum, const Scope& around) { return split(sum, around); });
  }

 private:
  std::optional<Expr> split(const Expr& expr, const Scope& around) {
    const auto sum = shifted_sum(algebra_, expr, around);
    if (!sum || !pays(*sum)) return std::nullopt;
    Expr inner = algebra_.make_product(sum->inside);
    Replacement positions, shifts;
    std::vector<Window> at;
    for (const Symbol moving : sum->moving) {
      if (!inner->depends_on(moving)) continue;
      const auto window = window_of(program_, inner, moving, sum->ragged);
      if (!window) return std::nullopt;
      positions.emplace_back(moving, window->axis_by_position());
      shifts.emplace_back(window->position, window->shifted);
      at.push_back(*window);
    }
    inner = substitute(inner, positions);
    if (depends_on_any(inner, sum->moving)) return std::nullopt;
    const auto scope = scope_of(*sum, at, around);
    if (!scope || !meets_most(*sum, at, *scope)) return std::nullopt;
    auto product = product_for(*sum, *scope, inner);
    if (!product) return std::nullopt;
    Expr met = substitute(add_part(program_, std::move(*product), user_), shifts);
    met = algebra_.times(algebra_.make_product(sum->outside), met);
    for (auto index = sum->ragged.rbegin(); index != sum->ragged.rend(); ++index)
      met = reduce(ReduceKind::Sum, *index, *sum->scope.find(*index), met);
    return met;
  }

  /// A product is written and read again; it takes long sums to make up for that. (Gradients of 3x3 convolutions of
  /// 28x28, milliseconds with a kernel alone and with a product: channels first, 16 channels .54 and .56, 32: 2.5 and
  /// 1.5; channels last, where lanes run along them, 32: .9 and 2, 64: 5.8 and 5.2.)
  bool pays(const ShiftedSum& sum) const {
    const bool lanes_move = is_among(sum.moving, Symbol::axis(static_cast<std::uint32_t>(user_.axes.size() - 1)));
    double terms = 1;
    for (const Symbol index : sum.plain) terms *= assumed_extent(*sum.scope.find(index));
    return terms >= (lanes_move ? 32 : 64);
  }

  /// Whether the sum reads at least half of the product. The gradient of a convolution's weights reads little of it: of
  /// 112 x 224 pairs of positions in a row those that lie at most 7 apart.
  static bool meets_most(const ShiftedSum& sum, const std::vector<Window>& windows, const Scope& of_product) {
    double computed = 1, met = 1;
    for (const Window& window : windows) computed *= assumed_extent(Range::extent(window.extent));
    for (const Symbol index : sum.ragged) {
      computed *= assumed_extent(Range::extent(room_for(*of_product.find(index), of_product)));
      met *= assumed_extent(*of_product.find(index));
    }
    for (const Symbol moving : sum.moving) met *= assumed_extent(*sum.scope.find(moving));
    return computed <= 2 * met;
  }

  /// With the axes in an order in which a library has the product: as they come, or those of the same factors together.
  std::optional<Extraction> product_for(const ShiftedSum& sum, Scope scope, const Expr& inner) const {
    Expr body = inner;
    for (auto index = sum.plain.rbegin(); index != sum.plain.rend(); ++index)
      body = reduce(ReduceKind::Sum, *index, *sum.scope.find(*index), body);
    for (const bool together : {false, true}) {
      if (together) gather_by_factor(scope.open, algebra_.product_of(inner));
      auto product = extract(program_, scope, body, user_.name + ".parts", scope.dtype);
      if (product && is_library_product(program_, product->definition)) return product;
    }
    return std::nullopt;
  }

  static void gather_by_factor(std::vector<std::pair<Symbol, Range>>& axes, const Product& product) {
    const auto first_factor = [&](const std::pair<Symbol, Range>& axis) {
      return std::ranges::find_if(product.factors,
                                  [&](const Factor& factor) { return factor.base->depends_on(axis.first); }) -
             product.factors.begin();
    };
    std::ranges::stable_sort(axes, {}, first_factor);
  }

  /// That of the product: the axes that stay, the ragged indices with all the values that they take, the positions.
  /// Axes that move nothing but ranges stay to tell which values these are.
  static std::optional<Scope> scope_of(const ShiftedSum& sum, const std::vector<Window>& windows, const Scope& around) {
    const auto is_shifted = [&](Symbol symbol) {
      return std::ranges::any_of(windows, [&](const Window& window) { return window.axis == symbol; });
    };
    Scope scope;
    scope.dtype = around.dtype;
    for (const auto& [symbol, range] : around.open) {
      if (is_shifted(symbol)) continue;
      if (!movers_of(range, around).empty()) return std::nullopt;
      scope = scope.with(symbol, range);
    }
    for (const Symbol index : sum.ragged) {
      const Range& range = *sum.scope.find(index);
      const auto box = std::ranges::any_of(movers_of(range, sum.scope), is_shifted) ? box_of(range, sum.scope) : range;
      if (!box) return std::nullopt;
      scope = scope.with(index, *box);
    }
    for (const Window& window : windows) scope = scope.with(window.position, Range::extent(window.extent));
    return scope;
  }

  Program& program_;
  const Algebra algebra_;
  const Definition& user_;
};

}  // namespace

Program split_shifted_sums(const Program& program) {
  return split_bodies(program, [](Program& known, const Definition& definition) {
    return ShiftedSumSplitter(known, definition).run();
  });
}

}  // namespace moxie
