#include <algorithm>
#include <optional>

#include "compiler/ir/condition_guards.h"
#include "compiler/ir/functions.h"
#include "compiler/ir/node_map.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/range_bounds.h"

namespace moxie {
namespace {

/// A condition as far as it is open, or its value.
struct Truth {
  Expr open;
  std::optional<bool> known = {};
};

/// The integer that a side of a comparison is, if it is affine in indices.
std::optional<Affine> integer_of(const Expr& expr) {
  if (expr->kind == NodeKind::IndexValue) return expr->affine;
  constexpr double kLargest = 1LL << 53;
  const bool is_whole = expr->kind == NodeKind::Constant && std::abs(expr->value) <= kLargest &&
                        expr->value == static_cast<double>(static_cast<std::int64_t>(expr->value));
  return is_whole ? std::optional(Affine(static_cast<std::int64_t>(expr->value))) : std::nullopt;
}

bool is_condition_node(const Expr& expr) {
  return expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth;
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
    return map_children(expr, [&](const Expr& child) { return is_condition_node(child) ? child : apply(child); });
  }

  Expr choice(const Expr& expr) {
    const Truth condition = truth(expr->args[0]);
    if (condition.known) return apply(expr->args[*condition.known ? 1 : 2]);
    KnownConditions holds(domain_.where(condition.open, true)), fails(domain_.where(condition.open, false));
    return call("where", {condition.open, holds.apply(expr->args[1]), fails.apply(expr->args[2])});
  }

  Truth truth(const Expr& condition) { return truth(condition, domain_); }

  /// The condition where it is asked for only in `domain`: what it reads must exist without that.
  Truth truth(const Expr& condition, const IndexDomain& domain) {
    if (joins_conditions(condition)) return joint(condition, domain);
    if (is_call(condition, "not")) {
      const Truth inner = truth(condition->args[0], domain);
      return inner.known ? Truth{{}, !*inner.known} : Truth{call("not", {inner.open})};
    }
    if (condition->args.size() != 2) return {condition};
    const auto left = integer_of(condition->args[0]), right = integer_of(condition->args[1]);
    if (left && right) return {condition, compared(domain, condition->function->name, *left - *right)};
    return {map_children(condition, [&](const Expr& child) { return apply(child); })};
  }

  /// Each part is asked for where those before it hold, or where those before an `or` do not.
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

  /// Of the difference of both sides.
  static std::optional<bool> compared(const IndexDomain& domain, std::string_view comparison,
                                      const Affine& difference) {
    const auto is_least = [&](const Affine& affine, std::int64_t least) {
      return domain.prove_nonnegative(affine - Affine(least)) == Proof::Holds;
    };
    const Affine negative = difference * -1;
    if (comparison == "<") return is_least(negative, 1) ? std::optional(true) : decided(is_least(difference, 0), false);
    if (comparison == "<=")
      return is_least(negative, 0) ? std::optional(true) : decided(is_least(difference, 1), false);
    if (comparison == ">") return compared(domain, "<", negative);
    if (comparison == ">=") return compared(domain, "<=", negative);
    const bool equal = comparison == "==";
    if (is_least(difference, 1) || is_least(negative, 1)) return !equal;
    return decided(is_least(difference, 0) && is_least(negative, 0), equal);
  }

  static std::optional<bool> decided(bool is_known, bool value) {
    return is_known ? std::optional(value) : std::nullopt;
  }

  IndexDomain domain_;
  Results done_;
};

/// Whether a condition stands below another one: alone, lowering decides it.
bool has_nested_conditions(const Expr& body) {
  int choices = 0;
  visit(body, [&](const Expr& e) { choices += is_call(e, "where") ? 1 : 0; });
  return choices > 1;
}

}  // namespace

Program drop_known_conditions(const Program& program) {
  Program result = program;
  for (Definition& definition : result.definitions) {
    if (!has_nested_conditions(definition.body)) continue;
    definition.body = KnownConditions(domain_of(Scope::of(definition))).apply(definition.body);
  }
  return result;
}

}  // namespace moxie
