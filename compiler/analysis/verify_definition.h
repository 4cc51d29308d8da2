#pragma once
// The part of verify() that looks into definitions.
#include <string>

#include "compiler/program/program.h"

namespace moxie {

/// The dims whose values the Program gives.
Replacement known_dims(const Program& program);
/// Throws ShapeError unless the range has bounds on both ends with positive divisors.
void check_range_form(const Range& range, const std::string& where);
/// What becomes of a subscript that lies inside its tensor for some values of the dims that are not known yet.
enum class Unproved : std::uint8_t { allowed, refused };
/// Checks axes and body of the definition at `position`, which may read inputs and the definitions before it.
void verify_definition(const Program& program, std::size_t position, Unproved unproved = Unproved::allowed);

/// Whether the subscripts of a specialised Program that verify() has found right are inside their tensors for all
/// positive values of its dynamic dims. If not, verify_for() has to be asked for the values that are about to be used.
bool is_right_for_all_dims(const Program& program);
/// The Program with values for dims that are dynamic or have none.
Program with_values(Program program, const DimValues& dims);
/// verify() with these values.
void verify_for(Program program, const DimValues& dims);

}  // namespace moxie
