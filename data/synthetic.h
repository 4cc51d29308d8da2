#pragma once
// Generated tables and texts, for machines without data.
#include <cstdint>

#include "data/table.h"
#include "data/texts.h"

namespace moxie {

/// 4,000 points of four interleaved noisy spirals, lifted from the plane to 8 features by fixed waves of position; the
/// last column, "class", is the arm. A linear model gets a third of them wrong, the nearest neighbour none.
Table synthetic_spirals(std::uint64_t seed);

/// 2,000 rows of 4 features and a target "y" whose noise grows with the first feature: something for an estimate of
/// variance to find.
Table synthetic_regression(std::uint64_t seed);

/// 3,000 reviews of restaurants that praise one of three things (the label) and complain of the others, as in "the soup
/// was not bad but the waiter was rude". Each three rows have the same words in another order and all three labels, so
/// that who only counts words is right for a third of the rows.
Texts synthetic_reviews(std::uint64_t seed);

}  // namespace moxie
