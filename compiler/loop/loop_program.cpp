#include "compiler/loop/loop_program.h"

#include <algorithm>

namespace moxie {

ValueType value_type(DType dtype) { return computed_dtype(dtype) == DType::f32 ? ValueType::f32 : ValueType::f64; }

bool stmt::For::operator==(const For&) const = default;

bool draws_random(const LoopProgram& program) {
  const auto draws = [](const Value& value) { return std::holds_alternative<op::Random>(value.operation); };
  return std::ranges::any_of(program.values, draws);
}

}  // namespace moxie
