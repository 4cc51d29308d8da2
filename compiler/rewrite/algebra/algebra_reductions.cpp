// Sums over indices: what leaves their loops, and which are split.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "compiler/analysis/inside_proof.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/algebra_forms.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// Whether an expression has the value of an element or a number as it is, without a rounding of its own. (What stands
/// in parentheses may be an exact difference.)
bool is_exact(const Expr& product) {
  static constexpr std::array kExact = {"+", "min", "max", "abs", "relu", "floor", "sign", "where", "f32", "f64"};
  return product->kind != NodeKind::Call || std::ranges::find(kExact, product->function->name) != kExact.end();
}

/// Whether it holds an extremum that may be one of no elements, and so infinite, such as the shift of a log-sum-exp.
/// Times a sum without iterations it would be NaN.
bool holds_extremum_of_none(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) {
    found |= e->kind == NodeKind::Reduce && std::isinf(neutral_value(e->reduce)) && !e->range.has_iterations();
  });
  return found;
}

/// Whether the expression can be evaluated where the loop over `index` stands, even if that has no iterations.
bool may_leave(const Expr& expr, Symbol index, const Range& range, const Surroundings* around) {
  if (expr->depends_on(index)) return false;
  if (range.has_iterations()) return true;
  if (holds_extremum_of_none(expr)) return false;
  bool reads = false;
  visit(expr, [&](const Expr& e) { reads |= e->kind == NodeKind::Access; });
  return !reads || (around && InsideProof(around->program, Inside::Element).holds_within(expr, around->domain));
}

/// The number of iterations, where no value of a dim makes it negative.
std::optional<Affine> trip_count(const Range& range) {
  const auto extent = range.as_extent();
  const auto counts = [](const Affine::Term& term) { return term.first.is_dim() && term.second > 0; };
  if (!extent || extent->constant() < 0 || !std::ranges::all_of(extent->terms(), counts)) return std::nullopt;
  return extent;
}

}  // namespace

bool Algebra::may_be_summed_apart(const std::vector<Term>& terms) const {
  std::vector<Expr> exact;
  for (const Term& term : terms) {
    if (is_exact(term.product)) exact.push_back(term.coefficient < 0 ? -term.product : term.product);
  }
  return exact.size() <= 1 || have_one_sign(exact);
}

Expr Algebra::plain_sum(Symbol index, const Range& range, const Expr& body, const Surroundings* around) const {
  if (body->is_constant(0)) return body;
  const auto trips = trip_count(range);
  if (!trips || !may_leave(body, index, range, around)) return reduce(ReduceKind::Sum, index, range, body);
  return times(normalise(index_value(*trips)), body);
}

/// The factors of `product` that must stay in the loop over the index, and those that leave it.
std::pair<Product, Product> Algebra::split_by_index(const Product& product, Symbol index, const Range& range,
                                                    const Surroundings* around) const {
  Product inside;
  Product outside{product.coefficient, {}};
  for (const Factor& factor : product.factors) {
    (may_leave(factor.base, index, range, around) ? outside : inside).factors.push_back(factor);
  }
  return {inside, outside};
}

Expr Algebra::make_reduction_sum(Symbol index, const Range& range, const Expr& body, const Surroundings* around) const {
  if (is_call(body, "+")) {
    const std::vector<Term> terms = terms_of(body);
    const bool sets_free = std::ranges::any_of(terms, [&](const Term& term) {
      return !split_by_index(product_of(term.product), index, range, around).second.factors.empty();
    });
    if (!sets_free || !may_be_summed_apart(terms)) return plain_sum(index, range, body, around);
    std::vector<Term> sums;
    for (const Term& term : terms)
      sums.push_back({term.coefficient, make_reduction_sum(index, range, term.product, around)});
    Expr total = constant(0);
    for (const Term& sum : sums) total = plus(total, scaled(sum.product, sum.coefficient));
    return total;
  }
  // The condition on values chooses between the whole sum and nothing. (Those on indices become bounds of ranges.)
  if (is_call(body, "where") && body->args[2]->is_constant(0) && depends_on_values(body->args[0]) &&
      may_leave(body->args[0], index, range, around))
    return call("where", {body->args[0], make_reduction_sum(index, range, body->args[1], around), body->args[2]});
  const auto [inside, outside] = split_by_index(product_of(body), index, range, around);
  if (outside.factors.empty() && outside.coefficient == 1) return plain_sum(index, range, body, around);
  if (inside.factors.empty() && !outside.factors.empty()) {
    const Expr trips = plain_sum(index, range, one(), around);
    const Expr product = times(make_product(outside), trips);
    // Without iterations the sum is 0, also of what is infinite then, such as exp(-max[s](..)); 0 times it is NaN.
    return range.has_iterations() ? product : call("where", {call(">", {trips, constant(0)}), product, constant(0)});
  }
  return times(make_product(outside), plain_sum(index, range, make_product(inside), around));
}

}  // namespace moxie
