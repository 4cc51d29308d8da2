#include "compiler/analysis/inside_proof.h"

#include <algorithm>

#include "compiler/expression/functions.h"

namespace moxie {

Affine AtStep::lag_of(const Expr& access) const {
  const Affine ago = step - access->subscripts[0];
  return scan.backwards ? ago * -1 : ago;
}

bool AtStep::knows_lag_of(const Expr& access, const IndexDomain& domain) const {
  if (folded && folded->contains(access->tensor)) return true;
  const Affine lag = lag_of(access);
  return lag.is_constant() || domain.prove_nonnegative(lag - Affine(1)) == Proof::Holds;
}

bool InsideProof::holds(const Expr& access, const IndexDomain& domain) const {
  const Definition* read = program_.find_definition(access->tensor);
  if (at_ && read && read->scan == at_->scan && !at_->knows_lag_of(access, domain)) return false;
  const Definition* definition = wanted_ == Inside::Element ? read : nullptr;
  const std::vector<Affine> shape = program_.shape_of(access->tensor);
  const auto element = [&](Symbol symbol) {
    return symbol.kind() == Symbol::Kind::Axis ? &access->subscripts[symbol.number()] : nullptr;
  };
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const Range range = definition ? definition->axes[k].range.substitute(element) : Range::extent(shape[k]);
    const Affine& at = access->subscripts[k];
    if (at.mentions_value()) continue;
    const auto above = [&](const Bound& low) {
      return domain.prove_nonnegative(at * low.divisor - low.value) == Proof::Holds;
    };
    const auto below = [&](const Bound& high) {
      return domain.prove_nonnegative(high.value - at * high.divisor) == Proof::Holds;
    };
    if (!std::ranges::all_of(range.lows, above) || !std::ranges::all_of(range.highs, below)) return false;
  }
  return true;
}

bool InsideProof::heeds_condition(const Expr& where) const {
  return wanted_ == Inside::Element || (where->args[1]->kind == NodeKind::Access && where->args[2]->is_constant(0));
}

bool InsideProof::holds_within(const Expr& expr, const IndexDomain& domain) const {
  Place place{domain};
  return holds_at(expr, place);
}

bool InsideProof::holds_unguarded(const Expr& expr, const IndexDomain& domain) const {
  Place place{domain};
  return holds_unguarded(expr, place);
}

bool InsideProof::holds_at(const Expr& expr, Place& place) const {
  if (!place.done.insert(expr.get())) return true;
  if (expr->kind == NodeKind::Access && !holds(expr, place.domain)) return false;
  if (expr->kind == NodeKind::Reduce) {
    Place inner{place.domain};
    inner.domain.add_range(Symbol::bound(expr->height), expr->range);
    return std::ranges::all_of(expr->args, [&](const Expr& arg) { return holds_at(arg, inner); });
  }
  if (expr->kind == NodeKind::Call && expr->function->name == "where" && heeds_condition(expr)) {
    if (holds_unguarded(expr, place)) return true;
    Place yes{place.domain.where(expr->args[0], true)};
    Place no{place.domain.where(expr->args[0], false)};
    return holds_at(expr->args[0], place) && holds_at(expr->args[1], yes) && holds_at(expr->args[2], no);
  }
  return std::ranges::all_of(expr->args, [&](const Expr& arg) { return holds_at(arg, place); });
}

/// Branches of conditions are places of their own, so what both branches of nested conditions have in common would be
/// proved once for each of them, exponentially often. Most of it needs no condition.
bool InsideProof::holds_unguarded(const Expr& expr, Place& place) const {
  if (const bool* known = place.unguarded.find(expr.get())) return *known;
  bool result = false;
  if (expr->kind == NodeKind::Access && !holds(expr, place.domain)) {
    result = false;
  } else if (expr->kind == NodeKind::Reduce) {
    Place inner{place.domain};
    inner.domain.add_range(Symbol::bound(expr->height), expr->range);
    result = std::ranges::all_of(expr->args, [&](const Expr& arg) { return holds_unguarded(arg, inner); });
  } else {
    result = std::ranges::all_of(expr->args, [&](const Expr& arg) { return holds_unguarded(arg, place); });
  }
  return place.unguarded[expr.get()] = result;
}

}  // namespace moxie
