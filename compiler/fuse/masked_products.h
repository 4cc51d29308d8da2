#pragma once
// Masked products: a condition on indices, such as a causal mask, makes the left operand of a matrix product zero
// outside of a band. Zero times a finite number adds nothing.
#include "compiler/fuse/fuse.h"

namespace moxie {

/// Gives each product outside of scans whose left operand is zero outside of a band that band (MatrixProduct::masked).
void find_masks(FusedProgram& fused);

}  // namespace moxie
