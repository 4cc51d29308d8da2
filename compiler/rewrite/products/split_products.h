#pragma once
// Whether a library multiplies what a definition says.
#include "compiler/program/program.h"

namespace moxie {

/// Whether the whole body of the definition, which need not be one of the program's, is one product of matrices as
/// large as a library is worth calling for, or a batch of them.
bool is_library_product(const Program& program, const Definition& definition);

}  // namespace moxie
