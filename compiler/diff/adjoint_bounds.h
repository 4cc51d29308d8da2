#pragma once
// Adjoints that exist for some elements only: those of a causal mask are where(j <= i, .., 0), and their definitions
// and all that comes of them run over j in 0..i+1.
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

struct BoundedAdjoint {
  std::vector<AxisDecl> axes;
  Expr body;
};

/// The adjoint without the conditions on two axes or more that all of its summands have, which are bounds of the last
/// one of these instead. Elsewhere the adjoint is 0, and sends nothing on.
BoundedAdjoint with_bounds(const std::vector<DimDecl>& dims, const std::vector<AxisDecl>& axes, const Expr& adjoint);

}  // namespace moxie
