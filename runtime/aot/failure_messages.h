#pragma once
// Messages for values outside a formula's domain, from what a kernel's failed check left behind.
#include "compiler/loop/loop_program.h"
#include "runtime/aot/call_checks.h"

namespace moxie::aot {

/// Leaves with the message of the failed check, if the kernel's status in host memory tells of one.
void leave_where_failed(FunctionWriter& writer, const Call& call, const LoopProgram& program, const Pointer& status);

}  // namespace moxie::aot
