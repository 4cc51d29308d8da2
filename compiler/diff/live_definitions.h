#pragma once
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// The definitions that `wanted` need, themselves included, in the order of the program.
std::vector<Definition> live_definitions(const Program& program, const std::vector<std::string>& wanted);

}  // namespace moxie
