#pragma once
// Closed-form adjoints of linear algebra.
#include "compiler/diff/contributions.h"
#include "compiler/diff/program_builder.h"

namespace moxie {

/// Sends `adjoint`, the adjoint of a definition made by lift_linear_algebra as an expression over its axes, to the
/// operands. Exact for what the operations read, which is the lower triangle: elements above the diagonal receive
/// nothing, those below it both halves of a symmetric derivative. `gates` is given where all of the adjoint passed a
/// `where`.
void differentiate_algebra(ProgramBuilder& builder, const Definition& definition, const Expr& adjoint,
                           Contributions& contributions, Gates* gates);

}  // namespace moxie
