#include "compiler/loop/loop_program.h"

namespace moxie {

ValueType value_type(DType dtype) { return computed_dtype(dtype) == DType::f32 ? ValueType::f32 : ValueType::f64; }

bool stmt::For::operator==(const For&) const = default;

}  // namespace moxie
