#pragma once
// Roots of one kernel that run over the same pairs: a root takes over the loops of another, in their order, and its
// sums their nesting, so that what both compute of a pair is computed once.
#include "compiler/fuse/fuse.h"
#include "compiler/rewrite/algebra/algebra.h"

namespace moxie {

/// A root in loops of the kernel; `inner` are those that are its own, in no order yet, of axes and of sums.
struct SharedLoops {
  KernelRoot root;
  std::vector<LoopIndex> inner;
};

/// `root`, in the loops of the root of the kernel that has most in common with it; as it is where none has any.
SharedLoops in_shared_loops(const Algebra& algebra, const Kernel& kernel, const KernelRoot& root);
/// The root with its inner loops in the order in which it computes most of what the kernel has.
KernelRoot with_inner_loops(const Algebra& algebra, const Kernel& kernel, SharedLoops shared);

/// The expression with every double sum nested in the one of its two orders that all expressions share which hold the
/// same function of both indices.
Expr nest_sums(const Algebra& algebra, const Expr& expr);

}  // namespace moxie
