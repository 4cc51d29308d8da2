#pragma once
// Two rounds of a loop as one: inner loops run half as often, and what they read serves both rounds, whose chains of
// operations do not wait for each other.
#include <optional>
#include <vector>

#include "compiler/loop/nest_builder.h"

namespace moxie {

/// The pairs of rounds of a loop over `index`, which does `works`; nullopt where inner loops would not serve both
/// rounds.
std::optional<Range> range_of_pairs(const Range& range, const std::vector<Work>& works, Symbol index);
/// What the loop over `pair` does; sums into one place add up both rounds first.
std::vector<Work> in_pairs(const std::vector<Work>& works, Symbol index, Symbol pair);

}  // namespace moxie
