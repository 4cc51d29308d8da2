#pragma once
#include "compiler/loop/nest_builder.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {

/// The loops of a scatter sum, with the range that a call computes.
struct ScatterLoops {
  std::optional<LoopIndex> vector;  // along no axis that the terms go along
  bool lanes = false;               // whether it has lanes; else its iterations follow each other
  LoopIndex rows;                   // along one: a call takes the terms that go to its rows
  std::vector<LoopIndex> others;    // of the root's further axes
};

/// The sum of a kernel that can be lowered so: its only root, with the sample loop along an axis that its terms go
/// along and the vector loop, if there is one, along none.
std::optional<Scatter> scatter_of(const Program& program, const Kernel& kernel);

/// Sets the rows to zero, then adds the terms one after the other to their elements: in the order of the sum, whoever
/// computes which rows.
void lower_scatter(NestBuilder& nest, const KernelRoot& root, BufferId out, const Scatter& sum,
                   const ScatterLoops& loops);

}  // namespace moxie
