#include "compiler/loop/progression.h"

#include <algorithm>
#include <cmath>

#include "compiler/rewrite/algebra.h"

namespace moxie {
namespace {

/// The error grows with every round; a first round and a factor have to pay.
constexpr std::int64_t kFewestRounds = 4, kMostRounds = 64;

/// Exponents up to here stay far from overflow and from numbers that lose digits.
double largest_exponent(ValueType type) { return type == ValueType::f32 ? 85 : 700; }

struct Interval {
  double low = -HUGE_VAL, high = HUGE_VAL;
};

Interval bounds_of(const Expr& expr);

Interval bounds_of_term(const Term& term) {
  Interval bounds = term.product->is_constant(1) ? Interval{1, 1} : bounds_of(term.product);
  bounds.low *= term.coefficient;
  bounds.high *= term.coefficient;
  if (term.coefficient < 0) std::swap(bounds.low, bounds.high);
  return bounds;
}

/// As far as minima and maxima in the expression tell.
Interval bounds_of(const Expr& expr) {
  if (expr->kind == NodeKind::Constant) return {expr->value, expr->value};
  if (is_call(expr, "min") || is_call(expr, "max")) {
    const bool minimum = is_call(expr, "min");
    const Interval a = bounds_of(expr->args[0]);
    const Interval b = bounds_of(expr->args[1]);
    return minimum ? Interval{std::min(a.low, b.low), std::min(a.high, b.high)}
                   : Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
  }
  if (!is_call(expr, "+") && !is_call(expr, "*") && !is_call(expr, "neg")) return {};
  const std::vector<Term> terms = terms_of(expr);
  if (terms.size() == 1 && terms[0].product == expr) return {};
  Interval sum{0, 0};
  for (const Term& term : terms) {
    const Interval bounds = bounds_of_term(term);
    sum.low += bounds.low;
    sum.high += bounds.high;
  }
  return sum;
}

Expr at(const Expr& expr, Symbol index, const Affine& place) { return normalise(substitute(expr, {{index, place}})); }

bool stays_within(const Expr& exponent, double largest) {
  const Interval bounds = bounds_of(exponent);
  return bounds.low >= -largest && bounds.high <= largest;
}

/// Exponents are monotonous in the index: what holds in the first and the last round holds between them.
std::optional<Progression> exponential(const Expr& exponent, Symbol index, std::int64_t rounds, ValueType type) {
  const Expr step = normalise(plus(at(exponent, index, Affine(index) + Affine(1)), scaled(normalise(exponent), -1)));
  if (step->depends_on(index)) return std::nullopt;
  const Expr first = at(exponent, index, 0);
  const double largest = largest_exponent(type);
  if (!stays_within(first, largest) || !stays_within(at(exponent, index, rounds - 1), largest)) return std::nullopt;
  return Progression{call("exp", {first}), call("exp", {step})};
}

}  // namespace

std::optional<Progression> progression_of(const Expr& expr, Symbol index, const Range& range, ValueType type) {
  const auto extent = range.as_extent();
  if (!extent || !extent->is_constant() || extent->constant() < kFewestRounds || extent->constant() > kMostRounds)
    return std::nullopt;
  return exponential(expr->args[0], index, extent->constant(), type);
}

}  // namespace moxie
