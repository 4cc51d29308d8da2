#pragma once
// The order that Sort and ArgSort give, in double: the reference of what devices sort.
#include <span>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

/// The positions of the elements in ascending order. Zeros of both signs are equal, NaN comes after all numbers, and
/// elements that are equal, or NaN, keep their order.
std::vector<std::size_t> sorted_positions(std::span<const double> row);

/// The whole result of Sort or ArgSort.
std::vector<double> sort_row(LinearAlgebraKind kind, std::span<const double> row);

}  // namespace moxie
