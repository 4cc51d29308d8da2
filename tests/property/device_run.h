#pragma once
// Samples run on devices.
#include <memory>

#include "runtime/session.h"
#include "tests/property/check.h"

namespace moxie::test {

/// What difference() allows between a device and evaluate(), in double and in single.
inline constexpr double kTolerance = 1e-9;
inline constexpr double kSingleTolerance = 1e-3;

/// Dynamic dims that no input shows: a Session has to be told.
DimValues hidden_dims(const Program& program, const DimValues& dims);
/// The outputs of one run.
TensorValues run(Session& session, const Program& program, const DimValues& dims, const TensorValues& inputs);
TensorValues run(const std::shared_ptr<Device>& device, const Program& program, const DimValues& dims,
                 const TensorValues& inputs);
/// All of it, whatever dtypes it declares.
Sample in_double(Sample sample);
/// With inputs of floating-point numbers in f16 and bf16 by turns, which hold the values that they are given exactly.
Sample with_half_inputs(Sample sample);

}  // namespace moxie::test
