#pragma once
// Batches: a Program that computes for many samples what another computes for one.
#include <string>
#include <vector>

#include "compiler/ir/program.h"

namespace moxie {

/// The Program with one more axis, the first, of each input named in `inputs`, and of each output that depends on one
/// of them: a new dynamic dim `batch`. Outputs that depend on none stay as they are. Random numbers are the same for
/// all samples. Roles go: what was a model is a formula. Throws TypeError for a name that no input has.
Program batched(const Program& program, const std::vector<std::string>& inputs);

}  // namespace moxie
