#pragma once
// What the data sets of images share.
#include <string>
#include <vector>

#include "data/encoding.h"

namespace moxie {

/// Every pixel of a channel by the same scale, since pixels at a border may never change and have no range of their
/// own.
Encoding image_encoding(const ImageShape& shape, const std::vector<NumericEncoding>& channels, std::string class_column,
                        std::vector<std::string> classes);

}  // namespace moxie
