#pragma once
// `moxie aot` for formulas from any source.
#include <functional>

#include "tools/commands/command.h"
#include "tools/commands/program_choice.h"

namespace moxie {

using ProgramSource = std::function<Program(const ProgramChoice&)>;
Work add_aot(OptionParser& parser, const ProgramSource& source);

}  // namespace moxie
