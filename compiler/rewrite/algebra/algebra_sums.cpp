// Sums in normal form.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/algebra_forms.h"

namespace moxie {
namespace {

/// Multiplication by a power of two, or by its opposite, changes no digit.
bool is_power_of_two(double factor) {
  int exponent = 0;
  return std::abs(std::frexp(factor, &exponent)) == 0.5;
}

/// Whether something is taken away in a sum of these terms.
bool has_difference(const std::vector<Term>& terms) {
  const auto sign = [](const Term& term) {
    return term.product->kind == NodeKind::Constant ? term.coefficient * term.product->value : term.coefficient;
  };
  return std::ranges::any_of(terms, [&](const Term& t) { return sign(t) < 0; }) &&
         std::ranges::any_of(terms, [&](const Term& t) { return sign(t) > 0; });
}

/// Whether one of the terms is both added and taken away.
bool has_opposites(const std::vector<Term>& terms) {
  std::map<const Node*, int> signs;  // 1: added, 2: taken away
  return std::ranges::any_of(
      terms, [&](const Term& term) { return (signs[term.product.get()] |= term.coefficient < 0 ? 2 : 1) == 3; });
}

/// The condition of `where(condition, value, 0)` that looks at values, or an empty expression.
Expr condition_of(const Expr& expr) {
  const bool is_choice = is_call(expr, "where") && expr->args[2]->is_constant(0) && depends_on_values(expr->args[0]);
  return is_choice ? expr->args[0] : Expr();
}

/// Whether one of the terms is where the condition of the other is not, with the same value.
bool complement(const Term& a, const Term& b) {
  const Expr yes = condition_of(a.product), no = condition_of(b.product);
  return yes && no && is_call(no, "not") && no->args[0] == yes && a.product->args[1] == b.product->args[1];
}

/// where(c, x, 0) + 0.2*where(not c, x, 0) is x*where(c, 1, 0.2): x is computed once, with no condition around it.
void join_complements(std::vector<Term>& terms, const std::function<Expr(const Expr&, const Expr&)>& times) {
  for (std::size_t k = 0; k < terms.size(); ++k) {
    const auto other = std::ranges::find_if(terms, [&](const Term& term) { return complement(terms[k], term); });
    if (other == terms.end()) continue;
    const Expr& choice = terms[k].product;
    const Expr factor = call("where", {choice->args[0], constant(terms[k].coefficient), constant(other->coefficient)});
    terms[k] = {1, times(choice->args[1], factor)};
    const bool precedes = other < terms.begin() + static_cast<std::ptrdiff_t>(k);
    terms.erase(other);
    if (precedes) --k;
  }
}

/// Whether two numbers of a sum stay apart: one that keeps a difference from zero, as in 1 - p + 1e-12, would be lost
/// in the other one.
bool is_lost_in(const Term& a, const Term& b) {
  constexpr double kLost = 1e-6;  // eight units in the last place of a single
  const double first = std::abs(a.coefficient), second = std::abs(b.coefficient);
  return a.product == one() && std::min(first, second) < kLost * std::max(first, second);
}

}  // namespace

/// 3*(x - y) may be exact but for one rounding, 3*x - 3*y is not.
bool Algebra::may_distribute(double factor, const Expr& sum) const {
  return has_all_laws() || is_power_of_two(factor) || is_index_polynomial(sum) || have_one_sign(sum->args);
}

/// The coefficient of an expression, and the expression without it.
Term Algebra::term_of(const Expr& expr) const {
  if (expr->kind == NodeKind::Constant) return {expr->value, one()};
  if (!is_call(expr, "neg") && !is_call(expr, "*") && !is_call(expr, "/")) return {1, expr};
  Product product = product_of(expr);
  const double coefficient = std::exchange(product.coefficient, 1);
  const bool is_sum =
      product.factors.size() == 1 && product.factors[0].power == 1 && is_call(product.factors[0].base, "+");
  return {coefficient, is_sum ? product.factors[0].base : make_product(std::move(product))};
}

/// The terms of `coefficient * expr`, with those in parentheses where these open.
void Algebra::add_terms(std::vector<Term>& terms, const Expr& expr, double coefficient, Parentheses opened) const {
  Term term = term_of(expr);
  term.coefficient *= coefficient;
  if (!is_call(term.product, "+") || !may_distribute(term.coefficient, term.product)) {
    terms.push_back(std::move(term));
    return;
  }
  std::vector<Term> inside;
  for (const Expr& arg : term.product->args) add_terms(inside, arg, term.coefficient, opened);
  const bool opens = opened == Parentheses::All || is_index_polynomial(term.product) ||
                     (opened == Parentheses::OfSums && !has_difference(inside));
  if (opens)
    terms.insert(terms.end(), inside.begin(), inside.end());
  else
    terms.push_back(std::move(term));
}

/// Parentheses around a difference say what is taken away from what, and stay: it may be exact. Those around a sum,
/// which is rounded, go, unless a term in them meets its opposite: (a + b) - a is not b, but b rounded as a is.
std::vector<Term> Algebra::terms_of(const Expr& expr) const {
  const Term whole = term_of(expr);
  if (!is_call(whole.product, "+") || !may_distribute(whole.coefficient, whole.product)) return {whole};
  const auto terms_with = [&](Parentheses opened) {
    std::vector<Term> terms;
    for (const Expr& arg : whole.product->args) add_terms(terms, arg, whole.coefficient, opened);
    return terms;
  };
  if (has_all_laws()) return terms_with(Parentheses::All);
  std::vector<Term> terms = terms_with(Parentheses::OfSums);
  return has_opposites(terms) ? terms_with(Parentheses::OfIndices) : terms;
}

/// 3*x - x is 2*x unless x is infinite: then terms that are taken away stay apart from those that are added. x - x is 0
/// only if x is finite; a NaN stays in 0*x. A small number that is added to a difference stays behind all else.
Expr Algebra::make_sum(std::vector<Term> terms) const {
  const auto is_taken_away = [](const Term& term) { return term.coefficient < 0; };
  const bool keeps_small = !has_all_laws() && has_difference(terms);
  std::ranges::sort(terms, [&](const Term& a, const Term& b) {
    if (a.product != b.product) return precedes(a.product, b.product);
    if (keeps_small && a.product == one()) return std::abs(a.coefficient) > std::abs(b.coefficient);
    return is_taken_away(a) < is_taken_away(b);
  });
  std::vector<Term> joined;
  for (const Term& term : terms) {
    const bool joins = !joined.empty() && joined.back().product == term.product &&
                       !(keeps_small && is_lost_in(joined.back(), term)) &&
                       (is_taken_away(joined.back()) == is_taken_away(term) || is_never_infinite(term.product));
    if (joins)
      joined.back().coefficient += term.coefficient;
    else
      joined.push_back(term);
  }
  std::erase_if(joined, [&](const Term& term) { return term.coefficient == 0 && is_finite(term.product); });
  join_complements(joined, [&](const Expr& a, const Expr& b) { return times(a, b); });
  if (joined.empty()) return constant(0);
  std::vector<Expr> args;
  for (const Term& term : joined) args.push_back(scaled(term.product, term.coefficient));
  return args.size() == 1 ? args[0] : call("+", std::move(args));
}

Expr Algebra::scaled(const Expr& a, double factor) const {
  if (factor == 1) return a;
  if (is_call(a, "+") && may_distribute(factor, a)) {
    std::vector<Term> terms = terms_of(a);
    for (Term& term : terms) term.coefficient *= factor;
    return make_sum(std::move(terms));
  }
  Product product = product_of(a);
  product.coefficient *= factor;
  return make_product(std::move(product));
}

Expr Algebra::plus(const Expr& a, const Expr& b) const { return make_sum(terms_of(call("+", {a, b}))); }

}  // namespace moxie
