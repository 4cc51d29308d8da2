#pragma once
// Sorts of long rows, each by itself.
#include "runtime/algebra_call.h"
#include "runtime/cpu/thread_pool.h"

namespace moxie {

/// Writes the positions of the elements of every row of the batch, in the order of sorted_positions(): the first
/// `shape.out_rows` of them. Rows are shared out to the threads of the pool. `row` holds numbers of `dtype`, f32 or
/// f64.
void sort_rows(ThreadPool& pool, DType dtype, const AlgebraShape& shape, const void* row, void* positions);

}  // namespace moxie
