#pragma once
// Forward mode within the body of one definition.
#include <functional>

#include "compiler/diff/gates.h"
#include "compiler/diff/program_builder.h"

namespace moxie {

/// Gives the tangent of an access to a tensor, which is the constant 0 if the tensor has none.
using AccessTangent = std::function<Expr(const Expr& access)>;

/// The tangent of the definition, as an expression over its axes. Values that all iterations of a reduction read go to
/// new definitions `tan.NAME.1`, `tan.NAME.2`, ..., which become part of the definition's scan. A tangent that a
/// `where` made zero stays zero, however steep what follows is (`gates`).
Expr body_tangent(ProgramBuilder& builder, const Definition& definition, const AccessTangent& tangent_of, Gates& gates);

}  // namespace moxie
