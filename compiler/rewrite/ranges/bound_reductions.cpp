#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/placeholders.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/algebra/support.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

bool holds(const IndexDomain& domain, const Affine& affine) { return domain.prove_nonnegative(affine) == Proof::Holds; }

/// What a range that holds one index only, of its own accord, holds.
std::optional<Affine> single_index(const Range& range) {
  if (range.lows.size() != 1 || range.highs.size() != 1 || range.lows[0] != range.highs[0]) return std::nullopt;
  return range.lows[0].divisor == 1 ? std::optional(range.lows[0].value) : std::nullopt;
}

/// A condition on a distance of indices, abs(i-k) <= w, as the two that bound a range.
Expr without_distance(const Expr& condition) {
  const bool compares = is_call(condition, "<=") || is_call(condition, "<");
  if (!compares || !is_call(condition->args[0], "abs")) return condition;
  const auto difference = affine_of(condition->args[0]->args[0]);
  const auto width = affine_of(condition->args[1]);
  if (!difference || !width) return condition;
  return call("and", {with_args(condition, {number_of(*difference), number_of(*width)}),
                      with_args(condition, {number_of(-*difference), number_of(*width)})});
}

class ReductionBounder {
 public:
  ReductionBounder(const Program& program, SupportLaws laws) : support_(program, laws) {}

  Expr apply(const Expr& expr, const Scope& scope) {
    if (expr->kind != NodeKind::Reduce || extremum_of(expr->reduce)) return expr;
    const OpenedReduce opened = open(expr);
    const std::vector<Affine> constraints = usable(support_.constraints_in(opened.body), opened.index, scope);
    if (constraints.empty()) return expr;
    const IndexDomain around = domain_of(scope);
    IndexDomain domain = around;
    domain.add_range(opened.index, opened.range);
    const std::vector<IndexDomain> parts = support_.outside(opened.body, neutral_value(expr->reduce), domain);
    Range range = opened.range;
    for (const Affine& constraint : constraints) {
      const bool says_more = !holds(domain, constraint) && std::ranges::all_of(parts, [&](const IndexDomain& part) {
        return holds(part, constraint);
      });
      if (says_more) range = with_bound(std::move(range), opened.index, constraint);
    }
    if (range == opened.range) return expr;
    range = without_idle_bounds(std::move(range), opened.index, around);
    if (const auto index = single_index(range))
      return without_idle_conditions(substitute(opened.body, {{opened.index, *index}}), scope);
    if (!is_long(opened.range)) return expr;
    const Expr body = without_idle_conditions(opened.body, scope.with(opened.index, range));
    return reduce(expr->reduce, opened.index, range, body);
  }

 private:
  /// Those on the index of the loop and on indices around it.
  static std::vector<Affine> usable(std::vector<Affine> constraints, Symbol index, const Scope& scope) {
    std::erase_if(constraints, [&](const Affine& constraint) {
      const auto is_known = [&](const Affine::Term& term) {
        return term.first.is_dim() || term.first == index || scope.find(term.first);
      };
      return !constraint.mentions(index) || !std::ranges::all_of(constraint.terms(), is_known);
    });
    return constraints;
  }

  /// The expression without conditions on indices that hold, or fail, everywhere in the scope.
  static Expr without_idle_conditions(const Expr& expr, const Scope& scope) {
    return rewrite_bottom_up(expr, scope, [](const Expr& e, const Scope& inner) {
      if (!is_call(e, "where") || depends_on_values(e->args[0])) return e;
      const IndexDomain domain = domain_of(inner);
      if (domain.where(e->args[0], false).is_empty()) return e->args[1];
      if (domain.where(e->args[0], true).is_empty()) return e->args[2];
      return with_args(e, {needed(e->args[0], domain), e->args[1], e->args[2]});
    });
  }

  /// The condition without the parts of an `and` that hold everywhere in the domain.
  static Expr needed(const Expr& condition, const IndexDomain& domain) {
    if (!is_call(condition, "and")) return condition;
    std::vector<Expr> args = condition->args;
    std::erase_if(args, [&](const Expr& arg) { return domain.where(arg, false).is_empty(); });
    return args.size() == 1 ? args[0] : call("and", std::move(args));
  }

  Support support_;
};

Program bounded(const Program& program, SupportLaws laws) {
  Program result = program;
  ReductionBounder bounder(program, laws);
  for (Definition& definition : result.definitions) {
    definition.body = rewrite_bottom_up(
        definition.body, Scope::of(definition),
        [&](const Expr& expr, const Scope& scope) { return bounder.apply(without_distance(expr), scope); });
  }
  return result;
}

}  // namespace

Program bound_reductions(const Program& program) { return bounded(program, SupportLaws::Choices); }

Program bound_products(const Program& program) { return bounded(program, SupportLaws::All); }

}  // namespace moxie
