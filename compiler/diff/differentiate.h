#pragma once
// Reverse-mode differentiation of Programs.
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// The vector-Jacobian product of `outputs` with respect to the inputs `wrt` (all inputs if it is empty), as a Program.
/// It has the inputs and definitions of `program` (its outputs become lets unless `keep_outputs`), an input `cot.y` for
/// every y in `outputs` (any definition will do), and an output `grad.x` for every x in `wrt`, of the shape and dtype
/// of x; adjoints in between are lets `adj.NAME`. Where such a name is taken, as in a second derivative, it goes on
/// with _2.
///
/// The adjoints of a scan form a scan in the other direction; definitions that take no part in a recurrence leave their
/// scans.
///
/// Every gradient gathers: it is a definition in index notation like any other. At a kink (abs, relu) the derivative is
/// 0; of equal arguments of min and max, and of equal iterations of such reductions, the first takes the whole
/// gradient; random numbers and positions (argmax, argmin) are constants. A reduction costs as much again in its
/// gradient.
Program differentiate(const Program& program, const std::vector<std::string>& outputs,
                      const std::vector<std::string>& wrt, bool keep_outputs = true);

}  // namespace moxie
