#pragma once
// Messages for values outside a formula's domain, from what a kernel's failed check left behind.
#include <span>

#include "compiler/loop/loop_program.h"
#include "runtime/aot/call_checks.h"

namespace moxie::aot {

/// Leaves with the message of the failed check, if the status in host memory tells of one: its number among `checks`.
void leave_where_failed(FunctionWriter& writer, const Call& call, std::span<const CheckDecl> checks,
                        const Pointer& status);

}  // namespace moxie::aot
