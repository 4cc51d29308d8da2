#pragma once
// Ranges of loops as what they and the loops around them say of their index.
#include "compiler/program/index_domain.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// What the ranges of the open indices say.
IndexDomain domain_of(const Scope& scope);
/// The range with one more bound, `affine >= 0`, which mentions the index.
Range with_bound(Range range, Symbol index, const Affine& affine);
/// Where the range starts if no other index moves that, else 0.
Affine fixed_start(const Range& range);
Range shifted(Range range, const Affine& by);
/// The reduction with an index that starts at 0, where it starts at another fixed number and has an extent then. The
/// gradient of a recurrence sums from its second step on: sum[t in 1..T](a[t]*b[t-1]) is sum[t in 0..T-1](a[t+1]*b[t]).
OpenedReduce opened_from_zero(const Expr& reduction);
/// Whether one range has all bounds of the other, and perhaps more: it then runs through no other indices.
bool is_part_of(const Range& part, const Range& whole);
/// Leaves out the bounds that the other ones and the domain around the loop imply; one at each end stays.
Range without_idle_bounds(Range range, Symbol index, const IndexDomain& around);

}  // namespace moxie
