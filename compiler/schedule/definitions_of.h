#pragma once
// Which definitions the kernels of a fused Program stand for.
#include <vector>

#include "compiler/fuse/fuse.h"

namespace moxie {

/// The definitions that `kernel` computes, in the order of the Program: those that it stores, and those that only its
/// own expressions hold, for which nothing else makes room in memory.
std::vector<Definition> definitions_of(const FusedProgram& fused, const Kernel& kernel);

/// Whether nests can compute the kernel: a scan's step and linear algebra have loops of another form.
bool is_nest(const Kernel& kernel);

}  // namespace moxie
