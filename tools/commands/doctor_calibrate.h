#pragma once
// Measures the figures of this processor for the costs of kernels: `moxie doctor --calibrate`.
#include <string>

#include "compiler/schedule/machine.h"

namespace moxie {

/// `start` with the figures that small kernels show on this processor; takes a few seconds. Figures that no kernel
/// shows alone stay as they are.
Machine calibrate(Machine start);

/// Both tables side by side.
std::string comparison_table(const Machine& before, const Machine& after);

}  // namespace moxie
