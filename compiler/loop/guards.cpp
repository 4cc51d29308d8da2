#include "compiler/loop/guards.h"

#include <unordered_map>
#include <unordered_set>

#include "compiler/rewrite/algebra.h"

namespace moxie {
namespace {

/// Guards the accesses below one set of conditions and loops. What is computed without the innermost of them is read
/// there, too, and needs no more guards than there: `where(x[i] > 0, f(x[i]), 0)`.
class Guarding {
 public:
  Guarding(const InsideProof& proof, IndexDomain domain, Expr condition, Guarding* around)
      : proof_(proof), domain_(std::move(domain)), condition_(std::move(condition)), around_(around) {}

  /// All that is computed under these conditions.
  Expr whole(const Expr& expr) {
    note_computed(expr);
    return apply(expr);
  }

 private:
  void note_computed(const Expr& expr) {
    if (!expr->gathers || !computed_.insert(expr.get()).second) return;
    if (is_call(expr, "where"))
      note_computed(expr->args[0]);
    else if (expr->kind != NodeKind::Reduce)
      for (const Expr& arg : expr->args) note_computed(arg);
  }

  bool is_computed_around(const Expr& expr) const {
    return around_ && (around_->computed_.contains(expr.get()) || around_->is_computed_around(expr));
  }

  Expr apply(const Expr& expr) {
    if (is_computed_around(expr)) return around_->apply(expr);
    if (const auto it = done_.find(expr.get()); it != done_.end()) return it->second.second;
    // Branches of conditions are guarded by themselves: what they have in common would be walked through for each.
    Expr result = is_call(expr, "where") && is_inside_everywhere(expr) ? expr : guarded(expr);
    done_.emplace(expr.get(), std::pair(expr, result));
    return result;
  }

  Expr guarded(const Expr& expr) {
    // The guard of an access is one of what its subscripts read.
    if (expr->kind == NodeKind::Access)
      return condition_ && !is_inside(expr) ? call("where", {condition_, expr, constant(0)}) : expr;
    if (is_call(expr, "where")) return guarded_where(expr);
    if (expr->kind != NodeKind::Reduce) return map_children(expr, [&](const Expr& child) { return apply(child); });
    const OpenedReduce opened = open(expr);
    IndexDomain inner = domain_;
    inner.add_range(opened.index, opened.range);
    Guarding inside(proof_, std::move(inner), condition_, this);
    return map_opened(expr, opened, [&](const Expr& child) { return inside.whole(child); });
  }

  Expr guarded_where(const Expr& expr) {
    const Expr own = apply(expr->args[0]);
    const Expr yes = condition_ ? call("and", {condition_, own}) : own;
    const bool is_guard = expr->args[1]->kind == NodeKind::Access && expr->args[2]->is_constant(0);
    if (is_guard) return call("where", {is_inside(expr->args[1]) ? own : yes, expr->args[1], expr->args[2]});
    const Expr negated = call("not", {own});
    const Expr no = condition_ ? call("and", {condition_, negated}) : negated;
    return call("where", {own, Guarding(proof_, domain_, yes, this).whole(expr->args[1]),
                          Guarding(proof_, domain_, no, this).whole(expr->args[2])});
  }

  bool is_inside_everywhere(const Expr& expr) const { return !expr->gathers && proof_.holds_unguarded(expr, domain_); }
  /// What a subscript by value reads nobody knows before.
  bool is_inside(const Expr& access) const { return !reads_by_value(access) && proof_.holds(access, domain_); }

  const InsideProof& proof_;
  IndexDomain domain_;
  Expr condition_;                                               // empty outside all conditions
  Guarding* around_;                                             // with fewer conditions or loops; may be null
  std::unordered_set<const Node*> computed_;                     // what reads by value, outside of choices
  std::unordered_map<const Node*, std::pair<Expr, Expr>> done_;  // keeps its keys alive
};

}  // namespace

Expr guard_accesses(const Expr& expr, const Program& program, const IndexDomain& domain, std::optional<AtStep> at) {
  const InsideProof proof(program, Inside::Storage, std::move(at));
  return Guarding(proof, domain, {}, nullptr).whole(expr);
}

}  // namespace moxie
