#include "compiler/schedule/quotients_of_loops.h"

#include <algorithm>

#include "compiler/expression/quotients.h"
#include "compiler/rewrite/algebra/range_bounds.h"

namespace moxie {
namespace {

std::optional<Quotient> quotient_of(const Expr& expr) {
  const bool is_sum = expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum;
  return is_sum ? as_quotient(expr->range) : std::nullopt;
}

bool has_quotients(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= quotient_of(e).has_value(); });
  return found;
}

/// floor(value/divisor) where what the divisor leaves of the value lies between 0 and the divisor.
std::optional<Affine> known_quotient(const Quotient& quotient, const Scope& scope) {
  Affine whole(floor_div(quotient.value.constant(), quotient.divisor));
  for (const auto& [symbol, coefficient] : quotient.value.terms())
    whole += Affine(symbol) * floor_div(coefficient, quotient.divisor);
  const Affine rest = quotient.value - whole * quotient.divisor;
  if (rest.is_constant()) return whole;
  const IndexDomain domain = domain_of(scope);
  const bool is_known = domain.prove_nonnegative(rest) == Proof::Holds &&
                        domain.prove_nonnegative(Affine(quotient.divisor - 1) - rest) == Proof::Holds;
  return is_known ? std::optional(whole) : std::nullopt;
}

}  // namespace

Expr with_known_quotients(const Expr& expr, const Scope& scope) {
  if (!has_quotients(expr)) return expr;
  return rewrite_bottom_up(expr, scope, [&](const Expr& e, const Scope& around) -> Expr {
    const auto quotient = quotient_of(e);
    const auto known = quotient ? known_quotient(*quotient, around) : std::nullopt;
    if (!known) return e;
    const OpenedReduce opened = open(e);
    return substitute(opened.body, Replacement{{opened.index, *known}});
  });
}

Expr with_exact_quotients(const Expr& expr) { return with_known_quotients(expr, {}); }

std::map<std::uint32_t, std::int64_t> divisors_of_axes(const Definition& definition) {
  std::map<std::uint32_t, std::int64_t> divisors;
  visit(definition.body, [&](const Expr& e) {
    const auto quotient = quotient_of(e);
    const auto divided = quotient ? quotient->value.as_symbol() : std::nullopt;
    if (!divided || divided->kind() != Symbol::Kind::Axis) return;
    const AxisDecl& axis = definition.axes[divided->number()];
    if (!axis.extent.is_constant() || axis.range != Range::extent(axis.extent)) return;
    const std::int64_t extent = axis.extent.constant();
    if (extent <= quotient->divisor || extent % quotient->divisor != 0) return;
    std::int64_t& largest = divisors[divided->number()];
    largest = std::max(largest, quotient->divisor);
  });
  return divisors;
}

}  // namespace moxie
