#pragma once
// Contractions that a Program writes out more than once: softmax[j](sum[d](q[i,d]*k[j,d])) has its argument in the
// exponential and, at another index, in the sum that it is divided by.
#include "compiler/diff/active_tensors.h"
#include "compiler/program/program.h"

namespace moxie {

/// Gives each sum of products of two tensors, one of them active, a definition of its own if it stands in several
/// places that read different elements of it. Their adjoints then meet before they are multiplied by what is summed:
/// one product for each tensor, where each place would have one of its own. Sums of scans stay where they are, and
/// those whose reads only the conditions around them keep inside their tensors.
Program lift_repeated_contractions(const Program& program, const ActiveTensors& active);
/// The same of all tensors, for values: a library computes the product once, where each place would compute its own.
/// Not below conditions on values, such as ranges by data: few elements may be asked for.
Program lift_repeated_contractions(const Program& program);
/// Gives each log-sum-exp that several elements of a definition read, as those of log_softmax, a definition of its own:
/// the derivative needs it, and the definition reads the same. Not in exponentials: the normaliser of a softmax is
/// computed beside its elements, in the slice of rows that has them.
Program lift_normalisers(const Program& program, const ActiveTensors& active);
/// Gives each extremum that several elements of a definition read, as those of a softmax made safe by hand, a
/// definition of its own: its derivative is then the sum of what all of its readers send, which may vanish.
Program lift_extrema(const Program& program, const ActiveTensors& active);

}  // namespace moxie
