#pragma once
// Forward mode of linear algebra.
#include "compiler/diff/body_tangent.h"

namespace moxie {

/// The tangent of a definition made by lift_linear_algebra, as an expression over its axes. It is the transpose of the
/// closed form of the reverse mode: the adjoint of an operation is linear in the cotangent of the result, and its own
/// adjoint takes changes of the operands to the change of the result, at the same cost. What it computes in between
/// stands in definitions `tan.NAME.1`, `tan.NAME.2`, ....
Expr algebra_tangent(ProgramBuilder& builder, const Definition& definition, const AccessTangent& tangent_of);

}  // namespace moxie
