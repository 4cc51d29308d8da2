#pragma once
#include <map>

#include "compiler/fuse/fuse.h"

namespace moxie {

/// Where a definition would gather a small tensor lane by lane in every round of its sample loop, the tensor is copied
/// once with the vector loop's axis last, and the copy is read instead. Adds the copies, and their loops to `choices`.
/// With row-major layouts only definitions that scatter read copies: others find the loops that suit their operands.
Program transpose_gathers(const Program& program, const ProductTensors& products, Layouts layouts,
                          std::map<std::string, LoopChoice>& choices);

}  // namespace moxie
