#pragma once
// Kernels that do nothing but walk through memory, with the vector loop inside all others: rows are read and written as
// they lie.
#include <optional>

#include "compiler/fuse/fuse.h"

namespace moxie {

/// The kernel with all loops of its roots among their locals, if every element of its loops costs so little that the
/// order of memory is what counts: there is no loop inside, and what is summed fits in the nearest caches.
std::optional<Kernel> in_rows(const Kernel& kernel);

}  // namespace moxie
