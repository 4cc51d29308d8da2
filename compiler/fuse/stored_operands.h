#pragma once
// Operands of matrix products in 16 bits, where the library multiplies these.
#include "compiler/program/program.h"

namespace moxie {

/// The Program with matrix products that read tensors of f16, or of bf16, as they are stored where both operands were
/// nothing but such tensors in f32; tensors that nobody reads any more are gone.
Program with_stored_operands(const Program& optimised);

}  // namespace moxie
