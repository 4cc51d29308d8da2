#pragma once
// Prefix reductions in blocks, so that elements far apart do not wait for each other.
#include <map>
#include <optional>
#include <string>

#include "compiler/fuse/fuse.h"
#include "compiler/rewrite/patterns/prefix_reduction.h"

namespace moxie {

/// Positions in blocks of equal length; the last may be shorter.
struct PrefixBlocks {
  std::int64_t length = 0;  // positions of a block
  Range range;              // the numbers of the blocks
  std::string sums;    // the tensor that holds what blocks add, over the other axes and last the number of the block
  std::string before;  // the same of what precedes each block; empty: the sums are few, and each block adds them up
};

struct PrefixPlan {
  PrefixReduction reduction;
  std::optional<PrefixBlocks> blocks = {};

  /// The tensor that each block starts from, if there are blocks.
  std::string tensor_of_blocks() const { return !blocks ? "" : blocks->before.empty() ? blocks->sums : blocks->before; }
};

/// The prefix reductions of a Program by the names of their definitions.
using PrefixPlans = std::map<std::string, PrefixPlan>;

/// The Program with definitions for what blocks add and what precedes them. `plans` gets every prefix reduction,
/// including those of the new definitions.
Program with_block_sums(const Program& program, PrefixPlans& plans);

/// The loops and the body of a definition that is a prefix reduction.
KernelRoot prefix_root(const Definition& definition, const PrefixPlan& plan);

}  // namespace moxie
