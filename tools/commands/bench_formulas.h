#pragma once
// Formulas that are not benchmark cases: a .mox file or a built-in operation, with made-up inputs.
#include <string>
#include <vector>

#include "tools/commands/bench_cases.h"
#include "tools/commands/program_choice.h"

namespace moxie {

/// Differentiates `grad` (all outputs if it is empty or `all`) with respect to `wrt` (all differentiable inputs if it
/// is empty). Throws UsageError for a dim without a value, and what load_program() and differentiate() throw; a formula
/// that cannot be differentiated is an error only if `grad` or `wrt` asks for it.
/// Inputs are made up unless a safetensors file has them.
BenchSubject bench_formula(const ProgramChoice& choice, const std::string& file, const std::vector<std::string>& grad,
                           const std::vector<std::string>& wrt);

}  // namespace moxie
