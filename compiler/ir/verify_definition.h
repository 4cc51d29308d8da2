#pragma once
// The part of verify() that looks into definitions.
#include <string>

#include "compiler/ir/program.h"

namespace moxie {

/// Throws ShapeError unless the range has bounds on both ends with positive divisors.
void check_range_form(const Range& range, const std::string& where);
/// Checks axes and body of the definition at `position`, which may read inputs and the definitions before it.
void verify_definition(const Program& program, std::size_t position);

}  // namespace moxie
