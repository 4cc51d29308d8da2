#pragma once
// Reads what parameters and states have behind their names: `init glorot`.
#include "compiler/text/names.h"

namespace moxie {

/// `word` is the statement, for messages; `input` is what was read of it. Throws ParseError where `init` is missing,
/// its form is unknown or its numbers are not those that the form takes, and TypeError for a form that does not fit.
Initialiser parse_initialiser(TokenStream& tokens, const Program& program, Names& names, std::string_view word,
                              const InputDecl& input);

/// A number such as -1e-3. Throws ParseError with `hint` for anything else.
double parse_number(TokenStream& tokens, const Program& program, Names& names, const std::string& hint);

}  // namespace moxie
