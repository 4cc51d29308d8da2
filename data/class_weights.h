#pragma once
// Losses in which some classes count more than others.
#include <string>
#include <vector>

#include "data/dataset.h"

namespace moxie {

/// The weight of each class: `balanced` gives every class the same sum of weights over the training rows, and rows the
/// mean weight 1 (n / (classes * rows of the class)); CLASS=WEIGHT entries give those and leave the others 1. Throws
/// DataError for another choice, an unknown class, a weight that is not positive, and targets that are no classes.
std::vector<double> class_weights(const Dataset& data, const std::vector<std::string>& choice);

/// One-hot targets with the weight of their class in place of 1.
Matrix weighted_targets(const Matrix& targets, const Encoding& encoding);

}  // namespace moxie
