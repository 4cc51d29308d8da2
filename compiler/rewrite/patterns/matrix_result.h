#pragma once
// What else is computed of the matrix that a definition of linear algebra reads.
#include <string>

#include "compiler/diff/program_builder.h"

namespace moxie {

/// Element (row, col) of the result of `kind`, which has one for every row and column, for the matrix of `definition`:
/// a new definition over both indices and the axes that the matrix sees, named after the other one and `suffix`. It
/// belongs to the same scan, which leave_scans() lets it leave where it can.
Expr add_matrix_result(ProgramBuilder& builder, const Definition& definition, LinearAlgebraKind kind,
                       const std::string& suffix, const Affine& row, const Affine& col);

}  // namespace moxie
