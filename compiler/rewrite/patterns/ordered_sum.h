#pragma once
// Sums over the elements that compare below another element: y[n] = sum[l](where(key[l] < query[n], weight[l], 0)).
#include <optional>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// One factor of the terms of such a sum; none stands for the factor 1.
struct OrderedFactor {
  Expr value;
  /// Whether it multiplies the zero of unselected terms, too, as in g[l]*where(c, 1, 0): if it is infinite or NaN
  /// there, the sum is NaN.
  bool multiplies_zeros = false;
};

/// Of keys that equal the query, those whose index is below the limit are selected, or those from the limit on.
struct OrderedTie {
  Affine limit;
  bool below = true;
};

/// coefficient * sum[element](where(key < query, weight*scale, 0)) for keys below, at most, above or at least the
/// query. With the keys sorted, the selected ones are the first that many: a prefix sum of their weights holds the sum.
struct OrderedSum {
  Symbol element;  // the reduced index: key and weight depend on it, query and scale do not
  Affine count;    // of the elements
  Expr key, query;
  bool above = false;       // keys above the query are selected, else those below
  bool with_equal = false;  // keys that equal it, too
  std::optional<OrderedTie> tie = {};
  OrderedFactor weight, scale;
  double coefficient = 1;
};

/// The sum as such a one, whose weights are the same for all queries that share the keys. Nothing where it is none. The
/// scope is the one around the sum.
std::optional<OrderedSum> ordered_sum(const Algebra& algebra, const Expr& sum, const Scope& around);

/// What an index around the sum numbers: rows of keys, queries that share a row, or sums that share their queries.
enum class OrderedAxis : std::uint8_t { Row, Query, Sum };
OrderedAxis axis_of(const OrderedSum& sum, Symbol index);

/// Whether sorting takes less time than comparing all pairs, by estimate. Dims whose value is not in `extents` count
/// with `unknown`. `axes` are those of the tensor that holds the sums.
bool is_faster_sorted(const OrderedSum& sum, const std::vector<Symbol>& axes, const Scope& scope,
                      const DimValues& extents, double unknown);

}  // namespace moxie
