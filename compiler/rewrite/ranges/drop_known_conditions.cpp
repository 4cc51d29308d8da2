#include <algorithm>
#include <optional>

#include "compiler/analysis/condition_guards.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/node_map.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// A condition as far as it is open, or its value.
struct Truth {
  Expr open;
  std::optional<bool> known = {};
};

/// The value of a condition that it has at every point of the domain.
std::optional<bool> value_in(const IndexDomain& domain, const Expr& condition) {
  if (domain.where(condition, false).is_empty()) return true;
  if (domain.where(condition, true).is_empty()) return false;
  return std::nullopt;
}

/// Leaves conditions out whose value follows from the ranges of the indices and the conditions around them.
class KnownConditions {
 public:
  explicit KnownConditions(IndexDomain domain) : domain_(std::move(domain)) {}

  Expr apply(const Expr& expr) {
    if (const Expr* known = done_.find(expr)) return *known;
    Expr result = simpler(expr);
    done_.emplace(expr, result);
    return result;
  }

 private:
  Expr simpler(const Expr& expr) {
    if (expr->args.empty()) return expr;
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(expr);
      IndexDomain inner = domain_;
      inner.add_range(opened.index, opened.range);
      KnownConditions inside(std::move(inner));
      return map_opened(expr, opened, [&](const Expr& child) { return inside.apply(child); });
    }
    if (is_call(expr, "where")) return choice(expr);
    return map_children(expr, [&](const Expr& child) { return apply(child); });
  }

  Expr choice(const Expr& expr) {
    const Truth condition = truth(expr->args[0], domain_);
    if (condition.known) return apply(expr->args[*condition.known ? 1 : 2]);
    KnownConditions holds(domain_.where(condition.open, true)), fails(domain_.where(condition.open, false));
    return call("where", {condition.open, holds.apply(expr->args[1]), fails.apply(expr->args[2])});
  }

  /// A condition that is evaluated at the points of `domain` only. The elements that it reads must exist at all points
  /// of the domain around the whole condition.
  Truth truth(const Expr& condition, const IndexDomain& domain) {
    if (joins_conditions(condition)) return joint(condition, domain);
    if (is_call(condition, "not")) {
      const Truth inner = truth(condition->args[0], domain);
      return inner.known ? Truth{{}, !*inner.known} : Truth{call("not", {inner.open})};
    }
    if (const auto known = value_in(domain, condition)) return {{}, known};
    return {map_children(condition, [&](const Expr& child) { return apply(child); })};
  }

  /// Each part is evaluated where the parts before it leave the result open.
  Truth joint(const Expr& condition, IndexDomain domain) {
    const bool all = is_call(condition, "and");
    std::vector<Expr> open;
    for (const Expr& part : condition->args) {
      const Truth own = truth(part, domain);
      if (own.known == all) continue;
      if (own.known) return {{}, !all};
      open.push_back(own.open);
      domain = domain.where(own.open, all);
    }
    if (open.empty()) return {{}, all};
    return {open.size() == 1 ? open.front() : call(condition->function->name, std::move(open))};
  }

  IndexDomain domain_;
  Results done_;
};

/// Whether one condition may follow from another. One alone is decided by its ranges when it is lowered.
bool has_several_conditions(const Expr& body) {
  int choices = 0;
  visit(body, [&](const Expr& e) { choices += is_call(e, "where") ? 1 : 0; });
  return choices > 1;
}

}  // namespace

Program drop_known_conditions(const Program& program) {
  Program result = program;
  for (Definition& definition : result.definitions) {
    if (!has_several_conditions(definition.body)) continue;
    definition.body = KnownConditions(domain_of(Scope::of(definition))).apply(definition.body);
  }
  return result;
}

}  // namespace moxie
