#pragma once
// Masked parts: where a condition such as a causal mask selects the iterations of a loop that compute something, the
// loop runs through these alone, and one before or after stores what the others get. No iteration then computes what is
// thrown away, and a loop over what a sum ran through can read what that kept (see kept_values.h).
#include <functional>
#include <vector>

#include "compiler/program/index_domain.h"

namespace moxie {

struct MaskedPart {
  Range range;
  Expr body;
};

/// The parts of a loop over `index` whose body is where(condition, value, other): the iterations that the condition
/// selects, then those before them and those after, as far as there are any. Nothing unless the loop is long, a branch
/// costs enough, and all that the condition says are ends of the range that are known before the loop.
std::vector<MaskedPart> masked_parts(const Expr& body, Symbol index, const Range& range, const IndexDomain& around,
                                     const std::function<bool(const Affine&)>& is_known);

}  // namespace moxie
