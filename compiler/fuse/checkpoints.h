#pragma once
// Checkpoints: Programs whose scans recompute their steps from some that are kept.
#include <set>

#include "compiler/fuse/slices.h"

namespace moxie {

/// Whether a scan of the Program keeps checkpoints only.
bool has_checkpoints(const Program& program);

/// A specialised Program with checkpoints as parts that run one after the other, some of them chunk by chunk of steps;
/// one part, the Program without checkpoints, where they would save no memory. Each part is still to be optimised.
/// Throws TypeError where a scan reads itself in a way that needs all of its steps.
std::vector<ProgramPart> in_chunks(const Program& program);

/// The optimised part with names that neither `taken` nor any other part has, but for those of tensors in `shared`.
/// Adds its names to `taken`.
ProgramPart with_own_names(ProgramPart part, const std::set<std::string>& shared, std::set<std::string>& taken);

}  // namespace moxie
