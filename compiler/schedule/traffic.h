#pragma once
// Traffic: the bytes that a kernel moves between the levels of the memory hierarchy, from affine footprints.
#include <vector>

#include "compiler/schedule/loop_tree.h"
#include "compiler/schedule/machine.h"

namespace moxie {

struct Traffic {
  double bytes = 0;
  double scattered = 0;  // of these, in lines that are not neighbours in memory
  bool operator==(const Traffic&) const = default;
};

/// Between each level of the machine and the next one outwards. What fits in a level lies there when the kernel
/// begins, and stays; of a larger kernel, what the outermost loops that fit touch is moved for each of their
/// executions.
std::vector<Traffic> count_traffic(const LoopTree& tree, const Machine& machine);

/// The strides of a buffer's axes, in elements.
std::vector<double> strides_of(const LoopTree& tree, const BufferDecl& buffer);
/// How far two neighbouring values of `symbol` lie apart, in elements.
double stride_along(const std::vector<Affine>& subscripts, const std::vector<double>& strides, Symbol symbol);

}  // namespace moxie
