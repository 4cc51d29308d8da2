#pragma once
// What a benchmark case is held against, measured in the same run.
#include <cstdint>

#include "runtime/device.h"
#include "runtime/plan.h"

namespace moxie {

/// Bytes per second, read and written, of copying memory on `threads` threads: the best of several copies.
double copy_bandwidth(int threads);

/// The matrix products of a plan without anything around them, each with operands of its own. Scans are left out.
Program products_alone(const Plan& plan, const DimValues& dims);

}  // namespace moxie
