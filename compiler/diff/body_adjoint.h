#pragma once
// Reverse accumulation within the body of one definition.
#include "compiler/diff/active_tensors.h"
#include "compiler/diff/contributions.h"
#include "compiler/diff/program_builder.h"

namespace moxie {

/// Sends `adjoint`, the adjoint of the definition as an expression over its axes, down to the active tensors that its
/// body reads. An adjoint that fewer indices than are open determine is summed over the others first: within the
/// expression where only indices of reductions go, in a new definition `adj.NAME.1`, `adj.NAME.2`, ... where axes go,
/// so that all that lies below shares it. `definition.scan` is the scan that such definitions become part of. `gated`
/// says that all of the adjoint passed a `where`.
void differentiate_body(ProgramBuilder& builder, const Definition& definition, const Expr& adjoint,
                        const ActiveTensors& active, Contributions& contributions, Gates& gates, bool gated);

}  // namespace moxie
