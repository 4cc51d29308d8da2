#pragma once
#include "compiler/program/program.h"

namespace moxie {

/// Makes every linear algebra node the body of a definition of its own, with plain accesses as its operands and axes as
/// its element, so that it is computed once per matrix and not once per element.
Program lift_linear_algebra(const Program& program);

/// Makes only the operands of those definitions that `is_chosen` chooses plain accesses, in the dtype of the
/// definition.
Program lift_operands(const Program& program, bool (*is_chosen)(const Definition&));

/// Whether a definition is of that form.
bool is_lifted_linear_algebra(const Definition& definition);

}  // namespace moxie
