#include <cmath>

#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// max[e](where(key[e] == target, element, fill)), or another extremum, or the position of one.
struct Filled {
  OpenedReduce loop;
  ReduceKind extremum;
  Expr condition, key, target, element;
  double fill;
};

std::optional<Filled> filled_of(const Expr& expr) {
  if (expr->kind != NodeKind::Reduce) return std::nullopt;
  const ReduceKind extremum = extremum_of(expr->reduce).value_or(expr->reduce);
  if (!position_of(extremum) || !(expr->range.has_iterations() || has_fixed_extent(expr->range))) return std::nullopt;
  const OpenedReduce loop = open(expr);
  const Expr body = with_cast_inside(loop.body);
  const bool is_filled = is_call(body, "where") && is_call(body->args[0], "==") &&
                         body->args[2]->kind == NodeKind::Constant && std::isfinite(body->args[2]->value);
  if (!is_filled || (loop.position && loop.position != index_value(loop.index))) return std::nullopt;
  const auto& sides = body->args[0]->args;
  const std::size_t key = sides[0]->depends_on(loop.index) ? 0 : 1;
  if (!sides[key]->depends_on(loop.index) || sides[1 - key]->depends_on(loop.index)) return std::nullopt;
  return Filled{loop, extremum, body->args[0], sides[key], sides[1 - key], body->args[1], body->args[2]->value};
}

/// Combines the extremum of the elements that the key chooses with the fill, if any are left out. The first one that is
/// left out has the first position of the range where the first key is not the target. Where it is, the first key that
/// differs from it leaves out the first: one position for all targets.
class FillSplitter {
 public:
  FillSplitter(Program& known, const Definition& user, const Scope& scope, const Filled& filled)
      : known_(known), user_(user), scope_(scope), filled_(filled), first_(first_position(filled.loop.range)) {}

  std::optional<Expr> run(bool searches) {
    const Expr best = chosen(filled_.extremum);
    if (!worthwhile_scatter(known_, best, scope_)) return std::nullopt;
    const auto second = second_key();
    if (!second) return std::nullopt;
    return searches ? position(best, *second) : extremum(best, *second);
  }

 private:
  Expr chosen(ReduceKind kind) const {
    const Expr nothing = constant(neutral_value(filled_.extremum));
    return reduce(kind, filled_.loop.index, filled_.loop.range,
                  call("where", {filled_.condition, filled_.element, nothing}));
  }

  /// The condition that the range has an iteration; nothing where it is known to have one.
  Expr has_any() const {
    const Range& range = filled_.loop.range;
    return range.has_iterations() ? Expr() : call(">=", {index_value(range.highs[0].value + Affine(1)), 1});
  }

  Expr first_key() const {
    return substitute(filled_.key, {{filled_.loop.index, filled_.loop.range.lows.front().value}});
  }

  /// The position of the first key that differs from that of the first position; infinity if there is none.
  std::optional<Expr> second_key() {
    const Expr first = has_any() ? call("where", {has_any(), first_key(), 0}) : first_key();
    const Expr differs = call("!=", {filled_.key, first});
    const Expr second =
        reduce(ReduceKind::Min, filled_.loop.index, filled_.loop.range,
               call("where", {differs, index_value(filled_.loop.index), constant(neutral_value(ReduceKind::Min))}));
    auto part = extract(known_, scope_, second, user_.name + ".second", DType::f64);
    return part ? std::optional(add_part(known_, std::move(*part), user_)) : std::nullopt;
  }

  /// A condition: keys are compared as integers, and only where there are any.
  Expr leaves_out_first() const {
    const Expr differs = call("!=", {first_key(), filled_.target});
    return has_any() ? call("!=", {call("where", {has_any(), call("where", {differs, 1, 0}), 0}), 0}) : differs;
  }

  Expr extremum(const Expr& best, const Expr& second) const {
    const Expr leaves_any = call("or", {leaves_out_first(), call("<", {second, HUGE_VAL})});
    const Expr others = call("where", {leaves_any, constant(filled_.fill), constant(neutral_value(filled_.extremum))});
    return call(to_string(filled_.extremum), {best, others});
  }

  Expr position(const Expr& best, const Expr& second) const {
    const Expr left_out = call("where", {leaves_out_first(), first_, second});
    const Expr at = chosen(*position_of(filled_.extremum));
    const Expr fill = constant(filled_.fill);
    const bool largest = filled_.extremum == ReduceKind::Max;
    const Expr is_better = call(largest ? ">" : "<", {best, fill});
    const Expr wins = call("or", {is_better, call("!=", {best, best}), call("==", {left_out, HUGE_VAL})});
    const Expr earlier = call("where", {call("==", {best, fill}), call("min", {at, left_out}), left_out});
    return call("where", {wins, at, earlier});
  }

  Program& known_;
  const Definition& user_;
  const Scope& scope_;
  const Filled& filled_;
  const Expr first_;
};

}  // namespace

Program split_fills(const Program& program) {
  if (!has_integers(program)) return program;
  return split_bodies(program, [](Program& known, const Definition& user) {
    return rewrite_top_down(user.body, Scope::of(user),
                            [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
                              const auto filled = filled_of(expr);
                              const bool searches = expr->kind == NodeKind::Reduce && extremum_of(expr->reduce);
                              return filled ? FillSplitter(known, user, scope, *filled).run(searches) : std::nullopt;
                            });
  });
}

}  // namespace moxie
