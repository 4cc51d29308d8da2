#pragma once
// Guards for reads that differentiation moved.
#include "compiler/ir/program.h"

namespace moxie {

/// A factor that was read inside a loop may come to stand outside it, and there be read for rounds that the loop never
/// had; what multiplies it is zero then, but the element need not exist. Such reads get a guard.
Expr with_safe_reads(const Program& program, const Definition& definition);

}  // namespace moxie
