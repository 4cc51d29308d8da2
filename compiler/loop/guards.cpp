#include "compiler/loop/guards.h"

#include <algorithm>

#include "compiler/analysis/condition_guards.h"
#include "compiler/expression/node_map.h"
#include "compiler/fuse/fold_storage.h"
#include "compiler/rewrite/algebra/algebra.h"

namespace moxie {
namespace {

/// Guards the accesses below one set of conditions and loops, by as few conditions as keep the access inside the
/// tensor: reads of an element under the same guard become one read. What is also computed outside the innermost
/// condition is read there anyway, and needs no further guard: `where(x[i] > 0, f(x[i]), 0)`.
class Guarding {
 public:
  Guarding(const InsideProof& proof, IndexDomain domain, std::vector<Expr> conditions, Guarding* around)
      : proof_(proof), domain_(std::move(domain)), conditions_(std::move(conditions)), around_(around) {}

  /// All that is computed under these conditions.
  Expr whole(const Expr& expr) {
    note_computed(expr);
    return apply(expr);
  }

 private:
  void note_computed(const Expr& expr) {
    if (!expr->gathers || !computed_.insert(expr.get())) return;
    if (is_call(expr, "where")) return note_computed(expr->args[0]);
    if (expr->kind == NodeKind::Reduce) return;
    for (const Expr& arg : expr->args) {
      if (!joins_conditions(expr) || deciding(expr, arg).empty()) note_computed(arg);
    }
  }

  bool is_computed_around(const Expr& expr) const {
    return around_ && (around_->computed_.contains(expr.get()) || around_->is_computed_around(expr));
  }

  Expr apply(const Expr& expr) {
    if (is_computed_around(expr)) return around_->apply(expr);
    if (const Expr* known = done_.find(expr)) return *known;
    // Branches of conditions are guarded by themselves: what they have in common would be walked through for each.
    Expr result = is_call(expr, "where") && is_inside_everywhere(expr) ? expr : guarded(expr);
    done_.emplace(expr, result);
    return result;
  }

  Expr guarded(const Expr& expr) {
    // The guard of an access is one of what its subscripts read.
    if (expr->kind == NodeKind::Access) {
      if (conditions_.empty() || is_inside(expr)) return expr;
      const auto bounds = bounds_of_values(expr);
      return call("where", {bounds ? *bounds : guard_of(expr, conditions_), expr, constant(0)});
    }
    if (is_call(expr, "where")) return guarded_where(expr);
    if (joins_conditions(expr)) return guarded_conditions(expr);
    if (expr->kind != NodeKind::Reduce) return map_children(expr, [&](const Expr& child) { return apply(child); });
    const OpenedReduce opened = open(expr);
    IndexDomain inner = domain_;
    inner.add_range(opened.index, opened.range);
    Guarding inside(proof_, std::move(inner), conditions_, this);
    return map_opened(expr, opened, [&](const Expr& child) { return inside.whole(child); });
  }

  Expr guarded_where(const Expr& expr) {
    const Expr own = apply(expr->args[0]);
    const bool is_guard = expr->args[1]->kind == NodeKind::Access && expr->args[2]->is_constant(0);
    if (is_guard) return call("where", {own_guard(expr->args[1], own), expr->args[1], expr->args[2]});
    const auto branch = [&](const Expr& condition, const Expr& value) {
      return Guarding(proof_, domain_, with(condition), this).whole(value);
    };
    return call("where", {own, branch(own, expr->args[1]), branch(call("not", {own}), expr->args[2])});
  }

  /// A condition reads elements by value only where the conditions before it on that value leave the result open:
  /// `idx[s] >= 0 and x[idx[s]] > 0`.
  Expr guarded_conditions(const Expr& expr) {
    std::vector<Expr> guarded;
    for (const Expr& arg : expr->args) {
      std::vector<Expr> before;
      for (const std::size_t k : deciding(expr, arg))
        before.push_back(is_call(expr, "and") ? guarded[k] : call("not", {guarded[k]}));
      guarded.push_back(before.empty() ? apply(arg)
                                       : Guarding(proof_, domain_, with(all_of(std::move(before))), this).whole(arg));
    }
    return with_args(expr, std::move(guarded));
  }

  /// Which of the conditions before this one mention a value at which it reads elements.
  static std::vector<std::size_t> deciding(const Expr& joint, const Expr& condition) {
    std::vector<std::size_t> before;
    for (std::size_t k = 0; k < joint->args.size() && joint->args[k] != condition; ++k) {
      if (condition->gathers && reads_at_value_of(condition, joint->args[k])) before.push_back(k);
    }
    return before;
  }

  /// Whether the expression reads elements at values that the condition is about.
  static bool reads_at_value_of(const Expr& expr, const Expr& condition) {
    bool found = false;
    visit(expr, [&](const Expr& e) {
      const auto is_compared = [&](const Expr& value) { return compares(condition, value); };
      found |= reads_by_value(e) && std::ranges::any_of(e->args, is_compared);
    });
    return found;
  }

  /// Whether the value itself is in the condition, which says nothing of a value by which it reads another.
  static bool compares(const Expr& condition, const Expr& value) {
    if (condition == value) return true;
    return condition->kind != NodeKind::Access &&
           std::ranges::any_of(condition->args, [&](const Expr& arg) { return compares(arg, value); });
  }

  std::vector<Expr> with(const Expr& condition) const {
    std::vector<Expr> conditions = conditions_;
    conditions.push_back(condition);
    return conditions;
  }

  static Expr all_of(std::vector<Expr> conditions) {
    return conditions.size() == 1 ? conditions.front() : call("and", std::move(conditions));
  }

  /// The outermost of the conditions that keeps the access inside its tensor, or else as few of them as do.
  Expr guard_of(const Expr& access, const std::vector<Expr>& conditions) const {
    for (const Expr& condition : conditions) {
      if (keeps_inside(condition, access)) return condition;
    }
    std::vector<Expr> kept = conditions;
    for (std::size_t k = kept.size(); k-- > 0 && kept.size() > 2;) {
      std::vector<Expr> fewer = kept;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
      if (keeps_inside(all_of(fewer), access)) kept = std::move(fewer);
    }
    return all_of(std::move(kept));
  }

  /// Where conditions say that each subscript by value is an index that the access does not depend on: that the values
  /// are subscripts, which loops over these indices do not change. `where(label[n] == k, p[n,label[n]], 0)` reads one
  /// element for all k. Nothing where the access needs more to stay inside its tensor.
  std::optional<Expr> bounds_of_values(const Expr& access) const {
    const auto is_safe = [&](const Expr& value) { return proof_.holds_unguarded(value, domain_); };
    if (!proof_.holds(access, domain_) || !std::ranges::all_of(access->args, is_safe)) return std::nullopt;
    std::vector<Expr> bounds;
    for (std::size_t k = 0; k < access->subscripts.size(); ++k) {
      const Affine& subscript = access->subscripts[k];
      if (!subscript.mentions_value()) continue;
      const auto symbol = subscript.as_symbol();
      const Affine extent = proof_.extents_of(access)[k];
      if (!symbol || !is_other_index(access->args[symbol->number()], access, extent)) return std::nullopt;
      bounds.push_back(call("<=", {constant(0), access->args[symbol->number()]}));
      bounds.push_back(call("<", {access->args[symbol->number()], index_value(extent)}));
    }
    return bounds.empty() ? std::nullopt : std::optional(all_of(std::move(bounds)));
  }

  /// Whether a condition says that the value is an index below `extent` that the access does not depend on.
  bool is_other_index(const Expr& value, const Expr& access, const Affine& extent) const {
    const auto says_so = [&](const auto& self, const Expr& condition) -> bool {
      const auto says_one = [&](const Expr& arg) { return self(self, arg); };
      if (is_call(condition, "and")) return std::ranges::any_of(condition->args, says_one);
      if (!is_call(condition, "==")) return false;
      const bool is_first = condition->args[0] == value;
      const Expr& index = condition->args[is_first ? 1 : 0];
      const auto symbol = index->kind == NodeKind::IndexValue ? index->affine.as_symbol() : std::nullopt;
      return (is_first || condition->args[1] == value) && symbol && !symbol->is_dim() && !access->depends_on(*symbol) &&
             domain_.prove_nonnegative(*symbol) == Proof::Holds &&
             domain_.prove_nonnegative(extent - Affine(1) - *symbol) == Proof::Holds;
    };
    return std::ranges::any_of(conditions_, [&](const Expr& condition) { return says_so(says_so, condition); });
  }

  /// For an access of which its own condition decides whether it counts.
  Expr own_guard(const Expr& access, const Expr& own) const {
    if (is_inside(access) || keeps_inside(own, access)) return own;
    for (const Expr& condition : conditions_) {
      if (keeps_inside(condition, access)) return call("and", {condition, own});
    }
    return all_of(with(own));
  }

  bool keeps_inside(const Expr& condition, const Expr& access) const {
    return !reads_by_value(access) && proof_.holds(access, domain_.where(condition, true));
  }

  bool is_inside_everywhere(const Expr& expr) const { return !expr->gathers && proof_.holds_unguarded(expr, domain_); }
  /// What a subscript by value reads nobody knows before.
  bool is_inside(const Expr& access) const { return !reads_by_value(access) && proof_.holds(access, domain_); }

  const InsideProof& proof_;
  IndexDomain domain_;
  std::vector<Expr> conditions_;  // outermost first; all hold here
  Guarding* around_;              // with fewer conditions or loops; may be null
  NodeSet computed_;              // what reads by value, outside of choices
  Results done_;
};

}  // namespace

Expr guard_accesses(const Expr& expr, const Program& program, const IndexDomain& domain, std::optional<AtStep> at) {
  const InsideProof proof(program, Inside::Storage, std::move(at));
  return Guarding(proof, domain, {}, nullptr).whole(expr);
}

Expr guard_accesses(const Expr& expr, const FusedProgram& fused, const Definition& definition, IndexDomain domain) {
  std::optional<AtStep> at;
  if (definition.scan) {
    at = {*definition.scan, Symbol::dim(kScanStep), &fused.folded};
    domain.add_range(Symbol::dim(kScanStep), steps_of(fused, definition));
  }
  for (const std::string& argument : folded_steps_in(expr))
    domain.add_range(Symbol::dim(argument), Range::extent(folded_step(argument)->count));
  return guard_accesses(expr, fused.program, domain, std::move(at));
}

}  // namespace moxie
