#pragma once
// Storage folding: a tensor of a scan has room for those of its steps alone that are still to be read.
#include <set>
#include <string>

#include "compiler/fuse/fuse.h"

namespace moxie {

/// Tensors of scans that are no outputs, and are read a few steps later at most and after the scan at its last steps
/// alone, by kernels and products, keep that many steps: the extent of their first axis, also in `folded`. Steps that
/// are the last one after the other lie in the same place (see FoldedStep).
void fold_storage(FusedProgram& fused);

/// The steps of the scan that computes the definition, which belongs to one.
Range steps_of(const FusedProgram& fused, const Definition& definition);
/// The position of the current step along the first axis of a scan's tensor: the step itself, or a slot among the kept
/// steps if the tensor is folded.
Affine place_of_step(const FusedProgram& fused, const std::string& tensor);
/// The body of a definition of fused.program, with the places of steps in folded tensors in place of the steps: as
/// kernels read memory. The step of a definition's own scan is the argument kScanStep.
Expr body_in_storage(const FusedProgram& fused, const Definition& definition);
/// The arguments that hold the places at which such a body reads folded tensors.
std::set<std::string> folded_steps_in(const Expr& body);

}  // namespace moxie
