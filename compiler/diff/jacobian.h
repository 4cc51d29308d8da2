#pragma once
// Jacobians and products with Hessians, by forward and reverse mode.
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// Forward mode costs as much as the formula for each element of an input, reverse mode for each element of an output.
/// Automatic takes the one with fewer elements.
enum class JacobianMode : std::uint8_t { Automatic, Forward, Reverse };

/// The derivatives of all elements of `outputs` with respect to all elements of the inputs `wrt` (all inputs of real
/// numbers if it is empty), as a Program: that of differentiate(), without cotangents, and with an output `jac.y.x` for
/// every pair, with the axes of y first and then those of x. The elements that move (or count) are axes of one Program:
/// all columns are computed at once.
///
/// `dims` are values for dims that the program gives none, from which Automatic counts elements; a dim without a value
/// counts as 1000. Throws TypeError as differentiate() does.
Program jacobian(const Program& program, const std::vector<std::string>& outputs, const std::vector<std::string>& wrt,
                 JacobianMode mode = JacobianMode::Automatic, const DimValues& dims = {}, bool keep_outputs = true);

/// Products with the Hessian of sum(cot.y*y) over `outputs`: the gradient of differentiate(), and its derivative along
/// `tan.x`, for every input x of `wrt` together, as an output `hvp.x`. It costs a small multiple of the gradient.
Program hessian_products(const Program& program, const std::vector<std::string>& outputs,
                         const std::vector<std::string>& wrt, bool keep_outputs = true);

}  // namespace moxie
