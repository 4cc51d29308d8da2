#pragma once
// Batches: a Program that computes for many samples what another computes for one.
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// The Program for a batch of samples. Each input in `inputs` gets a new first axis, whose extent is a new dynamic dim
/// `batch`, and so does each output that depends on one of them; all other outputs keep their shapes. All samples draw
/// the same random numbers. The result has no roles: it is a formula, not a model. Throws TypeError for a name that no
/// input has.
Program batched(const Program& program, const std::vector<std::string>& inputs);

}  // namespace moxie
