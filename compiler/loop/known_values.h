#pragma once
// Between which numbers loop variables lie, where constants bound them.
#include <map>
#include <optional>

#include "compiler/expression/affine.h"

namespace moxie {

/// The values that a loop variable takes at most.
struct VariableRange {
  double low, high;
};
/// Of the loops around.
using KnownValues = std::map<Symbol, VariableRange>;

/// Nothing, either, where they are beyond the integers that doubles represent.
std::optional<VariableRange> values_of(const Affine& affine, const KnownValues& known);
/// high < low where there are none.
std::optional<VariableRange> values_of(const Range& range, const KnownValues& known);

}  // namespace moxie
