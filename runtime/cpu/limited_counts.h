#pragma once
// Sums over the elements that compare below another one which count no further than to a limit: ranks of which only the
// lowest matter. Of each row just that many keys are kept, in order.
#include "runtime/cpu/ordered_memory.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/ordered_sum_shape.h"

namespace moxie {

/// Whether keeping the lowest keys of a row takes less time than sorting all.
bool keeps_few_keys(const OrderedSumCall& call, const OrderedSumShape& shape);
/// Computes the call, which has no weights; rows are split over the threads of the pool.
void run_limited_counts(ThreadPool& pool, const OrderedSumCall& call, const OrderedSumShape& shape,
                        const OrderedMemory& memory);

}  // namespace moxie
