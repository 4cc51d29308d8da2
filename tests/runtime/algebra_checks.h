#pragma once
// What the tests of linear algebra compare.
#include "compiler/ir/evaluate.h"

namespace moxie::test {

/// Every tensor of `found`, to `tolerance` times its largest element or 1.
void check_values(const TensorValues& found, const TensorValues& expected, double tolerance);
/// With the dims whose values the program has.
DimValues all_dims(const Program& program, DimValues dims);
/// The values of the evaluator, on every device.
void check_devices(const Program& program, const DimValues& given, double tolerance);

}  // namespace moxie::test
