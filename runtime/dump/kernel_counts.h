#pragma once
// What a kernel does, counted in its LoopProgram.
#include "compiler/loop/lower.h"
#include "runtime/plan.h"

namespace moxie {

struct KernelCounts {
  double f32_ops = 0, f64_ops = 0;           // additions, multiplications, comparisons, ...; a multiply-add is two
  double fused = 0;                          // multiplications whose result is only added: half of a multiply-add each
  double special_ops = 0;                    // divisions, roots, exponentials and other functions
  double integer_ops = 0;                    // of subscripts and loops, as written
  double bytes_read = 0, bytes_written = 0;  // every element once
  bool operator==(const KernelCounts&) const = default;
};

/// For one launch. Throws ShapeError where dims are missing.
KernelCounts count_operations(const LoweredKernel& kernel, const DimValues& dims);

}  // namespace moxie
