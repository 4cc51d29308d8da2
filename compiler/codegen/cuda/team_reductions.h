#pragma once
// Reductions that several threads can share: each takes some of a loop's rounds and keeps a sum of its own, and what
// they have is combined behind it.
#include <map>
#include <vector>

#include "compiler/loop/lower.h"

namespace moxie::cuda_text {

struct KernelShape;

/// A var that the rounds of a loop add to, from the neutral element on.
struct Accumulation {
  VarId var;
  ReduceKind kind;
};

using Reductions = std::map<const stmt::For*, std::vector<Accumulation>>;

/// The outermost such loops of the vector loop's body that are long enough for a warp. A team's are those outside of
/// the loops whose rounds it shares out anyway.
Reductions find_team_reductions(const LoopProgram& program, const KernelShape& shape);
/// Those that are the same for all elements of the vector loop, wherever they stand: all lanes of a row would do the
/// same.
Reductions find_uniform_reductions(const LoopProgram& program, const KernelShape& shape);

/// How often loads of the loop read neighbours in rounds that follow each other, less how often they do for elements
/// that do.
int contiguous_loads(const LoopProgram& program, const stmt::For& loop, Symbol vector);

}  // namespace moxie::cuda_text
