#include "compiler/analysis/condition_guards.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/inside_proof.h"
#include "compiler/analysis/verify_definition.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

/// What is known of the indices without the conditions on the left, and with them.
struct Known {
  IndexDomain before, after;

  Known within(Symbol index, const Range& range) const {
    Known inner = *this;
    inner.before.add_range(index, range);
    inner.after.add_range(index, range);
    return inner;
  }
  Known where(const Expr& condition, bool truth) const {
    return {before.where(condition, truth), after.where(condition, truth)};
  }
};

class Ordering {
 public:
  explicit Ordering(const Program& program) : proof_(program, Inside::Element) {}

  Expr apply(const Expr& expr, const IndexDomain& domain) {
    if (!has_joint_conditions(expr)) return expr;
    if (is_call(expr, "where")) {
      return call("where", {apply(expr->args[0], domain), apply(expr->args[1], domain.where(expr->args[0], true)),
                            apply(expr->args[2], domain.where(expr->args[0], false))});
    }
    if (joins_conditions(expr)) return ordered(expr, domain);
    if (expr->kind != NodeKind::Reduce)
      return map_children(expr, [&](const Expr& child) { return apply(child, domain); });
    const OpenedReduce opened = open(expr);
    kept_.push_back(opened.body);
    IndexDomain inner = domain;
    inner.add_range(opened.index, opened.range);
    return map_opened(expr, opened, [&](const Expr& child) { return apply(child, inner); });
  }

 private:
  bool has_joint_conditions(const Expr& expr) {
    if (const auto known = joint_.find(expr.get()); known != joint_.end()) return known->second;
    const bool found = joins_conditions(expr) ||
                       std::ranges::any_of(expr->args, [&](const Expr& arg) { return has_joint_conditions(arg); });
    return joint_[expr.get()] = found;
  }

  Expr ordered(const Expr& expr, const IndexDomain& domain) {
    const bool all = is_call(expr, "and");
    std::vector<Expr> args;
    IndexDomain after = domain;
    for (const Expr& arg : expr->args) {
      const Expr own = apply(arg, after);
      args.push_back(args.empty() ? own : guarded(own, condition(args, all), {domain, after}));
      after = after.where(arg, all);
    }
    return call(expr->function->name, std::move(args));
  }

  /// That the conditions so far hold, or that none of them does.
  static Expr condition(const std::vector<Expr>& conditions, bool all) {
    std::vector<Expr> parts;
    for (const Expr& part : conditions) parts.push_back(all ? part : call("not", {part}));
    return parts.size() == 1 ? parts.front() : call("and", std::move(parts));
  }

  Expr guarded(const Expr& expr, const Expr& condition, const Known& known) const {
    if (expr->kind == NodeKind::Access) {
      const bool needs_condition = !proof_.holds(expr, known.before) && proof_.holds(expr, known.after);
      return needs_condition ? call("where", {condition, expr, constant(0)}) : expr;
    }
    if (is_call(expr, "where")) {
      const Expr& choice = expr->args[0];
      return call("where",
                  {guarded(choice, condition, known), guarded(expr->args[1], condition, known.where(choice, true)),
                   guarded(expr->args[2], condition, known.where(choice, false))});
    }
    if (expr->kind != NodeKind::Reduce)
      return map_children(expr, [&](const Expr& child) { return guarded(child, condition, known); });
    const OpenedReduce opened = open(expr);
    const Known inner = known.within(opened.index, opened.range);
    return map_opened(expr, opened, [&](const Expr& child) { return guarded(child, condition, inner); });
  }

  InsideProof proof_;
  std::unordered_map<const Node*, bool> joint_;
  std::vector<Expr> kept_;  // whose nodes joint_ knows
};

}  // namespace

bool joins_conditions(const Expr& expr) { return is_call(expr, "and") || is_call(expr, "or"); }

Expr with_ordered_conditions(const Program& program, const Definition& definition) {
  IndexDomain domain(known_dims(program));
  for (std::uint32_t axis = 0; axis < definition.axes.size(); ++axis)
    domain.add_range(Symbol::axis(axis), definition.axes[axis].range);
  return Ordering(program).apply(definition.body, domain);
}

}  // namespace moxie
