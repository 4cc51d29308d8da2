#pragma once
// Forward-mode differentiation of Programs.
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// The Jacobian-vector product of `outputs` with respect to the inputs `wrt` (all inputs of real numbers if it is
/// empty), as a Program. It has the inputs and definitions of `program` (its outputs become lets unless
/// `keep_outputs`), an input `tan.x` for every x in `wrt`, and an output `tan.y` for every y in `outputs` (any
/// definition will do), of the shape and dtype of y: the derivative of y where every x moves along `tan.x`. Tangents in
/// between are lets `tan.NAME`. Where such a name is taken, it goes on with _2.
///
/// A tangent stands beside the definition that it belongs to, in its scan too, so that nothing is stored for it and no
/// step is computed again. Kinks, ties, positions, random numbers and branches that `where` does not take have the
/// derivatives that differentiate() gives them: with the same values, sum(cot.y * tan.y) == sum(grad.x * tan.x).
///
/// `names` are other names for the outputs `tan.y`, in the order of `outputs`.
///
/// Throws TypeError for names that are unknown, stand twice or hold integers.
Program tangents(const Program& program, const std::vector<std::string>& outputs, const std::vector<std::string>& wrt,
                 bool keep_outputs = true, const std::vector<std::string>& names = {});

}  // namespace moxie
