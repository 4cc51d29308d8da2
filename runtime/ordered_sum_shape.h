#pragma once
// A sum over the elements below another one for given extents: how many rows, queries and sums, and where they lie.
#include <cstdint>
#include <vector>

#include "compiler/fuse/fuse.h"

namespace moxie {

struct Plan;

/// Elements of the operands and of the result, and the limit of ties, as offsets from those of another place.
struct OrderedPlace {
  std::int64_t key = 0, query = 0, weight = 0, scale = 0, out = 0, limit = 0;
  bool operator==(const OrderedPlace&) const = default;
};
// In the header, since loops over queries need one or two of the offsets only.
inline OrderedPlace operator+(const OrderedPlace& a, const OrderedPlace& b) {
  return {a.key + b.key, a.query + b.query, a.weight + b.weight, a.scale + b.scale, a.out + b.out, a.limit + b.limit};
}
inline OrderedPlace operator*(const OrderedPlace& a, std::int64_t factor) {
  return {a.key * factor, a.query * factor, a.weight * factor, a.scale * factor, a.out * factor, a.limit * factor};
}

/// One loop, and what moves from one iteration to the next.
struct OrderedLoop {
  std::int64_t count = 1;
  OrderedPlace step;
  bool operator==(const OrderedLoop&) const = default;
};

struct OrderedSumShape {
  std::int64_t keys = 0;  // of a row
  OrderedPlace first;
  OrderedPlace element;  // from one key of a row to the next
  /// Rows have keys of their own, queries see the same keys, sums see the same keys and queries. Outermost first.
  std::vector<OrderedLoop> rows, queries, sums;
  bool operator==(const OrderedSumShape&) const = default;
};
/// Throws ShapeError if a row is too long to be numbered.
OrderedSumShape ordered_sum_shape(const Plan& plan, const OrderedSumCall& call, const DimValues& dims);

std::int64_t count_of(const std::vector<OrderedLoop>& loops);
/// The place of the iteration with this number.
OrderedPlace place_in(const std::vector<OrderedLoop>& loops, std::int64_t number);

}  // namespace moxie
