#pragma once
// Rows that a choice among integers selects, read as one.
#include "compiler/program/program.h"

namespace moxie {

/// What chooses rows: integers of tensors, or quotients of indices too. The derivative by `x` at quotients is better
/// left to the indices, of which an element knows by which it is read.
enum class Choosers : std::uint8_t { Integers, IntegersAndQuotients };

/// `x[clamp(row[s],0,N-1),c]`, which stands for `where(.., x[0,c], where(.., x[row[s],c], x[N-1,c]))`, becomes
/// `x[y.row[s],c]` with a definition of integers `y.row[s] = where(.., 0, where(.., row[s], N-1))`: one read in the
/// place of one for each branch, of which two choices in an access make nine, and one term in the derivative by `x`. So
/// is every choice among elements of one tensor of which values select some, where its integers have no more indices
/// than the elements that they are made of, but for those of a few taps: a table of them takes hardly more memory. And
/// `x[clamp((4*i-1)//6+q,0,N-1),c]`, where the table is small beside the reads. Definitions of scans stay as they are.
Program name_chosen_rows(const Program& program, Choosers choosers);

}  // namespace moxie
