#pragma once
// Which elements of matrix products somebody reads: of the scores of causal attention, those up to the diagonal.
#include "compiler/fuse/fuse.h"

namespace moxie {

/// Gives each product the columns of every row that definitions read, where conditions or ranges around every read keep
/// it on one side of a diagonal, or between two. Outputs, products of scans and those of which something reads a whole
/// row have none.
void find_needed_columns(FusedProgram& fused);

}  // namespace moxie
