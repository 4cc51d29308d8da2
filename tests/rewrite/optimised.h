#pragma once
#include "compiler/reference/evaluate.h"

namespace moxie::test {

/// Deterministic values in 0.1..1.1.
TensorValues inputs_for(const Program& program, const DimValues& dims);
/// How many calls of the function the definitions have.
int count_calls(const Program& program, std::string_view function);
/// The optimised program, after a check that it gives the same outputs.
Program optimised(const char* text, const DimValues& dims);

}  // namespace moxie::test
