#pragma once
// Prefix reductions: y[i] = sum[j in 0..i+1](f(j)) and its like, whose elements continue each other.
#include <optional>

#include "compiler/program/program.h"

namespace moxie {

/// A reduction whose range gains a constant number of elements from one index of an axis to the next (or loses it: then
/// the positions run backwards), and whose body does not depend on the axis. Taken in the order of positions 0, 1, ...,
/// each element is the one before it combined with what its position adds.
struct PrefixReduction {
  ReduceKind kind = ReduceKind::Sum;
  std::uint32_t axis = 0;  // the one along which elements continue each other
  Affine extent;           // of the axis, and so the number of positions
  bool backwards = false;  // position 0 is the last index of the axis
  Symbol position = Symbol::fresh();
  Expr element;  // what `position` adds, in symbols of the other axes and in `position`
  Expr start;    // what precedes position 0, in symbols of the other axes
};

/// Nothing where the body of the definition is no such reduction, or where the axis is too short for it to pay:
/// is_long().
std::optional<PrefixReduction> match_prefix(const Definition& definition);

/// The function that combines two values as a sum, a product, a maximum or a minimum does.
const char* combining_function(ReduceKind kind);

}  // namespace moxie
