#pragma once
// The kinds of reductions.
#include <optional>
#include <utility>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

/// What a reduction without iterations gives; it changes nothing that it is combined with.
double neutral_value(ReduceKind kind);

/// Whether it is where(condition, e, neutral): a mask that leaves elements out of a reduction.
bool is_mask(const Expr& expr, double neutral);

/// Max of ArgMax, Min of ArgMin; empty for kinds whose value is no position.
std::optional<ReduceKind> extremum_of(ReduceKind kind);
/// ArgMax of Max, ArgMin of Min; empty for other kinds.
std::optional<ReduceKind> position_of(ReduceKind kind);

/// The number of iterations of nested loops, the outermost first: the product of extents and of constant lengths, or
/// else a sum of ones.
Expr count_iterations(const std::vector<std::pair<Symbol, Range>>& loops);

/// The first position of the range, which a search begins with, or that of no element where the range is empty.
Expr first_position(const Range& range);

/// Whether it is -inf, which takes no part in a maximum or a softmax.
bool is_left_out(const Expr& value);
/// exp(element - total), where `total` is the log-sum-exp of the row of the element. Of an element that a mask leaves
/// out, where(condition, e, -inf), it is exactly 0, also in a row of nothing else.
Expr softmax_element(const Expr& element, const Expr& total);

/// What a search for the position of an extremum holds: the best element so far, and where it stands.
struct PlacedValue {
  double value, position;
};
/// The neutral element of combine().
PlacedValue no_element(ReduceKind kind);
/// The better of two elements: NaN before numbers, then the larger (ArgMin: smaller) one, then the smaller position.
/// The result is the same in any order.
PlacedValue combine(ReduceKind kind, const PlacedValue& a, const PlacedValue& b);

}  // namespace moxie
