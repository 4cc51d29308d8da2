#pragma once
// What derivatives are asked of, and the tensors that they are taken through.
#include <set>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// The tensors that derivatives are taken through.
using ActiveTensors = std::set<std::string, std::less<>>;

/// Throws TypeError unless every output is a definition and every element of `wrt` an input, of real numbers, and each
/// stands once.
void check_derivative_names(const Program& program, const std::vector<std::string>& outputs,
                            const std::vector<std::string>& wrt);

/// All inputs but integers.
std::vector<std::string> real_inputs(const Program& program);
std::vector<std::string> outputs_of(const Program& program);
/// All outputs but integers, which have no derivatives.
std::vector<std::string> real_outputs(const Program& program);

/// The program as derivatives read it: linear algebra in definitions of its own, scans without what takes no part in a
/// recurrence, and no outputs unless `keep_outputs`.
Program prepared_for_derivatives(const Program& program, bool keep_outputs);

/// The inputs `wrt`, and all definitions that depend on them.
ActiveTensors active_tensors(const Program& program, const std::vector<std::string>& wrt);

}  // namespace moxie
