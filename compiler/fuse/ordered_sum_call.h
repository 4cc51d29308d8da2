#pragma once
// Which ordered sums are computed by sorting their keys.
#include <map>
#include <string>

#include "compiler/fuse/fuse.h"
#include "compiler/fuse/matrix_product.h"

namespace moxie {

using OrderedSumCalls = std::map<std::string, OrderedSumCall>;
/// By the names of the definitions: those for which sorting takes less time by estimate. `extents` as for fuse().
OrderedSumCalls ordered_sum_calls(const Program& program, const DimValues& extents);
/// Adds what they write and read.
void add_ordered_sums(const OrderedSumCalls& calls, ProductTensors& tensors);

}  // namespace moxie
