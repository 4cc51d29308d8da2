#pragma once
#include "compiler/analysis/inside_proof.h"
#include "compiler/fuse/fuse.h"

namespace moxie {

/// Where a condition guards a subscript that could leave its tensor, the condition moves to the access: `where(c,
/// f(x[i-1]), 0)` reads `where(c, x[i-1], 0)`, so that the access alone is conditional and everything around it may be
/// computed always. `domain` says what is known of the indices around the expression: accesses that lie inside by that
/// alone need no guard. In a scan, `at` is the step: what other pieces write in the same step is not read.
Expr guard_accesses(const Expr& expr, const Program& program, const IndexDomain& domain, std::optional<AtStep> at = {});
/// The same for what a kernel computes of a definition, with the steps of folded tensors as places (see
/// body_in_storage()).
Expr guard_accesses(const Expr& expr, const FusedProgram& fused, const Definition& definition, IndexDomain domain);

}  // namespace moxie
