#pragma once
// Reductions that several threads can share: each takes some of a loop's rounds and keeps a sum of its own, and what
// they have is combined behind it.
#include <map>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/counted_loops.h"
#include "compiler/loop/lower.h"

namespace moxie::cuda_text {

struct KernelShape;

/// A var that the rounds of a loop add to, from the neutral element on; or one that holds where the extremum stands
/// that another var holds, which comes before it: the least position of equal ones.
struct Accumulation {
  VarId var;
  ReduceKind kind;
  std::optional<VarId> position_of = {};
};

struct SharedReduction {
  CountedLoops counted;  // the outermost and those in it; empty where only the outermost can be shared out, by itself
  std::vector<Accumulation> sums;
  const stmt::For* innermost = nullptr;
};
/// By the outermost loop of a reduction.
using Reductions = std::map<const stmt::For*, SharedReduction>;
/// The rounds that are shared out, where known.
std::optional<std::int64_t> constant_rounds(const SharedReduction& reduction);

/// The outermost such loops of the vector loop's body, or of a kernel without one, that are long enough for a warp. A
/// team's are those outside of the loops whose rounds it shares out anyway.
Reductions find_team_reductions(const LoopProgram& program, const KernelShape& shape);
/// Those that are the same for all elements of the vector loop, wherever they stand: all lanes of a row would do the
/// same.
Reductions find_uniform_reductions(const LoopProgram& program, const KernelShape& shape);

/// How often loads of the loop read neighbours in rounds that follow each other, less how often they do for elements
/// of the vector loop that do, if there is one.
int contiguous_loads(const LoopProgram& program, const stmt::For& loop, const stmt::For* vector);

}  // namespace moxie::cuda_text
