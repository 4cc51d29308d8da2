#pragma once
// Lane runs: loads or stores of a vector loop's body whose lanes lie far apart in memory, each of them one element
// behind the one before it: x[lane,0], x[lane,1], ... Every lane reads or writes a run of neighbours, so that vectors
// along the runs and a transposition in registers take the place of gathers and scatters.
#include <cstddef>
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie {

struct LaneRun {
  std::vector<std::size_t> statements;  // indices in the block, in the order of the elements; a power of two of them
  bool stores = false;                  // else it loads
  /// The statement in whose place the run is executed: the first of its loads, the last of its stores.
  std::size_t place() const;
};

/// The runs of a block inside the vector loop over `variable`, each of at most `lanes` elements. Executing a run in its
/// place changes no value.
std::vector<LaneRun> lane_runs(const LoopProgram& program, const Block& block, Symbol variable, int lanes);

}  // namespace moxie
