#include "compiler/diff/reduction_adjoint.h"

#include "compiler/support/error.h"

namespace moxie {
namespace {

Expr product_of_other_rounds(const OpenedReduce& opened) {
  const Symbol other = Symbol::fresh();
  const Expr factor = substitute(opened.body, {{opened.index, other}});
  const Expr is_this_round = call("==", {index_value(other), index_value(opened.index)});
  return reduce(ReduceKind::Product, other, opened.range, call("where", {is_this_round, 1, factor}));
}

/// The extremum over the rounds before (after) this one. This round keeps the other bounds, and so do those on its far
/// side.
Expr extremum_of_part(ReduceKind kind, const OpenedReduce& opened, bool before) {
  Range range = opened.range;
  if (before)
    range.highs = {{1, Affine(opened.index) - Affine(1)}};
  else
    range.lows = {{1, Affine(opened.index) + Affine(1)}};
  const Symbol other = Symbol::fresh();
  return reduce(kind, other, range, substitute(opened.body, {{opened.index, other}}));
}

/// The first element that is the extremum, or the first that is NaN. Elements are compared with each other, never with
/// the reduction's value: a value computed twice may differ in its last bit.
Expr is_first_extremum(ReduceKind kind, const OpenedReduce& opened) {
  const bool largest = kind == ReduceKind::Max;
  const Expr before = extremum_of_part(kind, opened, true), after = extremum_of_part(kind, opened, false);
  const Expr extremum = call(
      "and", {call(largest ? ">" : "<", {opened.body, before}), call(largest ? ">=" : "<=", {opened.body, after})});
  const Expr first_nan = call("and", {call("!=", {opened.body, opened.body}), call("==", {before, before})});
  return call("where", {call("or", {extremum, first_nan}), 1, 0});
}

}  // namespace

Expr reduction_derivative(ReduceKind kind, const Expr& value, const OpenedReduce& opened) {
  switch (kind) {
    case ReduceKind::Sum:
      return 1;
    case ReduceKind::Product:
      return product_of_other_rounds(opened);
    case ReduceKind::Max:
    case ReduceKind::Min:
      return is_first_extremum(kind, opened);
    case ReduceKind::LogSumExp:
      return call("exp", {opened.body - value});
  }
  throw InternalError("a kind of reduction without a derivative");
}

}  // namespace moxie
