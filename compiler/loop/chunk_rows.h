#pragma once
// How finely sums over samples are shared out.
#include "compiler/loop/lower.h"

namespace moxie {

/// Rows that a chunk should at least hold: few where a row is so much work that partial results of its own do not
/// matter.
std::int64_t least_chunk_rows(const LoweredKernel& kernel);

}  // namespace moxie
