#include "compiler/loop/progression.h"

#include <algorithm>
#include <cmath>

#include "compiler/analysis/value_ranges.h"
#include "compiler/rewrite/algebra/algebra.h"

namespace moxie {
namespace {

/// The error grows with every round; a first round and a factor have to pay.
constexpr std::int64_t kFewestRounds = 4, kMostRounds = 64;

/// Exponents up to here stay far from overflow and from numbers that lose digits.
double largest_exponent(ValueType type) { return type == ValueType::f32 ? 85 : 700; }

Expr at(const Algebra& algebra, const Expr& expr, Symbol index, const Affine& place) {
  return algebra.normalise(substitute(expr, {{index, place}}));
}

bool stays_within(const Expr& exponent, double largest, const Program& source) {
  return lies_within(range_of(exponent, source), Interval::between(-largest, largest));
}

/// Exponents are monotonous in the index: what holds in the first and the last round holds between them. Their bounds
/// say that they are finite or NaN, so that the step may follow from all laws of the reals: the first one keeps a NaN.
std::optional<Progression> exponential(const Expr& exponent, Symbol index, std::int64_t rounds, ValueType type,
                                       const Program& source) {
  const Algebra reals = Algebra::of_reals();
  const Expr next = at(reals, exponent, index, Affine(index) + Affine(1));
  const Expr step = reals.normalise(reals.plus(next, reals.scaled(reals.normalise(exponent), -1)));
  if (step->depends_on(index)) return std::nullopt;
  const double largest = largest_exponent(type);
  for (const std::int64_t round : {std::int64_t{0}, rounds - 1}) {
    if (!stays_within(at(reals, exponent, index, round), largest, source)) return std::nullopt;
  }
  const Expr first = at(Algebra(source), exponent, index, 0);
  return Progression{call("exp", {first}), call("exp", {step})};
}

/// Whether an access, a draw or a reduction in the expression depends on the index: then the step from one iteration to
/// the next depends on it too, or a reduction has no value at the index of the first iteration alone.
bool reads_at(const Expr& expr, Symbol index) {
  bool found = false;
  visit(expr, [&](const Expr& e) {
    found |= e->kind != NodeKind::Call && e->kind != NodeKind::IndexValue && e->depends_on(index);
  });
  return found;
}

}  // namespace

std::optional<Progression> progression_of(const Expr& expr, Symbol index, const Range& range, ValueType type,
                                          const Program& source) {
  const auto extent = range.as_extent();
  if (!extent || !extent->is_constant() || extent->constant() < kFewestRounds || extent->constant() > kMostRounds)
    return std::nullopt;
  if (reads_at(expr, index)) return std::nullopt;
  return exponential(expr->args[0], index, extent->constant(), type, source);
}

}  // namespace moxie
