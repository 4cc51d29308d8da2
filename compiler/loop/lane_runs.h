#pragma once
// Lane runs: loads or stores of a vector loop's body whose lanes lie far apart in memory, each of them one element
// behind the one before it: x[lane,0], x[lane,1], ... Every lane reads or writes a run of neighbours, so that vectors
// along the runs and a transposition in registers take the place of gathers and scatters.
#include <cstddef>
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie {

struct LaneRun {
  std::vector<std::size_t> statements;  // of the block, in the order of the elements: a power of two
  bool stores = false;                  // at the last of the statements; else loads, at the first of them
};

/// The runs of a block that stands in the vector loop over `variable`, of at most `lanes` elements. No statement
/// between the first and the last of a run hinders that all are executed at once.
std::vector<LaneRun> lane_runs(const LoopProgram& program, const Block& block, Symbol variable, int lanes);

}  // namespace moxie
