#pragma once
// Programs and Plans as bytes, for keys and entries of the cache.
#include <string>
#include <string_view>

#include "runtime/plan.h"

namespace moxie {

/// All that a Program says, the lines of its text included: equal Programs have equal bytes, in every process.
std::string to_bytes(const Program& program);

/// A Plan but for its `program`, and for the steps of `fused`, which are for dumps only.
std::string to_bytes(const Plan& plan);
/// The inverse: a plan for `program`, whose `fused` has no steps. Throws CacheError for other bytes; every kernel is
/// verified.
Plan plan_from_bytes(std::string_view bytes, Program program);

}  // namespace moxie
