#pragma once
// Ranges of loops as what they and the loops around them say of their index.
#include "compiler/ir/index_domain.h"
#include "compiler/rewrite/scope.h"

namespace moxie {

/// What the ranges of the open indices say.
IndexDomain domain_of(const Scope& scope);
/// The range with one more bound, `affine >= 0`, which mentions the index.
Range with_bound(Range range, Symbol index, const Affine& affine);
/// Where the range starts if no other index moves that, else 0.
Affine fixed_start(const Range& range);
Range shifted(Range range, const Affine& by);
/// Whether one range has all bounds of the other, and perhaps more: it then runs through no other indices.
bool is_part_of(const Range& part, const Range& whole);
/// Leaves out the bounds that the other ones and the domain around the loop imply; one at each end stays.
Range without_idle_bounds(Range range, Symbol index, const IndexDomain& around);

}  // namespace moxie
