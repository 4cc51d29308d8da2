#pragma once
// Sums over the elements that compare below another one: a stable radix sort of each row of keys, and prefix sums.
#include "runtime/cpu/ordered_memory.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/ordered_sum_shape.h"

namespace moxie {

/// Computes the call. Rows are split over the threads of the pool. A row is sorted and added up in one order, in
/// double: the same bits for any number of threads.
void run_ordered_sum(ThreadPool& pool, const OrderedSumCall& call, const OrderedSumShape& shape,
                     const OrderedMemory& memory);

}  // namespace moxie
