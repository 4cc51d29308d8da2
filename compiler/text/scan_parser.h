#pragma once
// Reads scans: `scan t {`, the lines of definitions that step together, and `}`.
#include "compiler/text/definition_parser.h"

namespace moxie {

/// Reads what follows the word `scan` and appends its definitions to `program`. They may read each other, so that all
/// heads are read before the bodies. Throws as DefinitionParser does.
void parse_scan(TokenStream& tokens, Program& program, DefinitionParser& definitions);

}  // namespace moxie
