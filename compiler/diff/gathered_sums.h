#pragma once
// Sums of products over rows that values select, for all rows of which each is selected often.
#include "compiler/program/program.h"

namespace moxie {

/// The message `sum[c](U[o,c]*x[n,c] + V[o,c]*x[nbr[n,k],c])` along the edges of a graph becomes two products of
/// matrices, `y.rows[n,o] = sum[c](U[o,c]*x[n,c])` and `x.rows[r,o] = sum[c](V[o,c]*x[r,c])`, of which it reads
/// `y.rows[n,o] + x.rows[nbr[n,k],o]`, if these have several times fewer elements. Derivatives are those of the
/// parts: what edges send back is added up in rows before it is multiplied. Only sums and products of elements become
/// parts, so that rows that no value selects have finite derivatives; definitions of scans stay as they are.
Program lift_gathered_sums(const Program& program);

}  // namespace moxie
