#pragma once
// Which linear algebra a GPU's library (cuSOLVER, cuBLAS) computes in less time than a kernel.
#include "compiler/program/program.h"

namespace moxie {

/// Whether the library takes less time by estimate for the matrices of the definition, or of one of its steps in a
/// scan. `definition` has a library matrix (has_library_matrix()); `extents` are typical values of dims, kAssumedExtent
/// where there is none.
bool is_faster_by_solver(const Definition& definition, const DimValues& extents);

}  // namespace moxie
