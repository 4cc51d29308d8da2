#pragma once
// Formulas that are written for one axis, for tensors that have several in its place.
#include <cstddef>
#include <string_view>

#include "compiler/program/program.h"

namespace moxie {

/// `program` with dims N0, N1, ... in place of its dim N: what it says of vectors x[N], it then says of x[N0,N1,..].
/// Throws TypeError unless its formulas go element by element.
Program unfold(const Program& program, std::string_view dim, std::size_t count);

}  // namespace moxie
