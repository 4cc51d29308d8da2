#pragma once
// `use gpn.kernel(a = x, V = points, lambda = width) as layer1`: the definitions of a formula, with its inputs bound.
#include "compiler/text/names.h"
#include "compiler/text/text_library.h"

namespace moxie {

/// Reads what follows the word `use` and appends the formula's definitions to `program`.
void parse_use(TokenStream& tokens, Program& program, const Names& names, const TextLibrary& library);

}  // namespace moxie
