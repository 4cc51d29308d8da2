#pragma once
// A Program that a command line names, with the reductions that its text defines.
#include "compiler/text/parsed_text.h"
#include "tools/commands/program_choice.h"

namespace moxie {

/// load_program(), and the reductions of a file; a built-in operation has none.
ParsedText load_parsed(const ProgramChoice& choice);

}  // namespace moxie
