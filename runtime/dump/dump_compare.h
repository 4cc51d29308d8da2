#pragma once
// Two dumps side by side: what changed, and what it cost.
#include <string>

#include "runtime/dump/dump.h"

namespace moxie {

/// Kernels that went and came, figures that changed, and lines that did: of the stages that are wanted or, by default,
/// of the first stage of each kernel that differs. Empty for dumps that say the same.
std::string compare_dumps(const Dump& before, const Dump& after, const DumpOptions& options = {});

}  // namespace moxie
