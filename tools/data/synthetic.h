#pragma once
// Generated tables, for machines without data.
#include <cstdint>

#include "tools/data/table.h"

namespace moxie {

/// 4,000 points of four interleaved noisy spirals, lifted from the plane to 8 features by fixed waves of position; the
/// last column, "class", is the arm. A linear model gets a third of them wrong, the nearest neighbour none.
Table synthetic_spirals(std::uint64_t seed);

/// 2,000 rows of 4 features and a target "y" whose noise grows with the first feature: something for an estimate of
/// variance to find.
Table synthetic_regression(std::uint64_t seed);

}  // namespace moxie
