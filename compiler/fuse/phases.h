#pragma once
// Phases: passes over the chunks of time of a checkpointed Program, from the first to the last and back by turns.
#include "compiler/fuse/time_axes.h"

namespace moxie {

/// Steps next to a chunk that a phase reads of a tensor: before the chunk, or after it.
struct Halo {
  std::int64_t steps = 0;
  int writer = 0;  // the phase that has stored them
  bool operator==(const Halo&) const = default;
};

/// One pass. What it computes of a chunk of steps is gone when it has done the next one, but for what it stores.
struct Phase {
  bool backwards = false;
  std::set<std::string> computes;      // definitions with an axis of time, and sums over time
  std::map<std::string, Halo> before;  // by tensor
  std::map<std::string, Halo> later;
  std::set<std::string> whole;  // tensors of which it stores all steps
};

/// The last steps of a chunk (of a phase that goes backwards: the first ones) that a phase stores for the next chunk
/// and, where they are checkpoints, for later phases.
struct StoredSteps {
  std::int64_t steps = 0;
  bool checkpoints = false;  // those of all chunks are kept
};

struct Phases {
  TimedProgram timed;
  std::vector<Phase> phases;
  /// In which phase definitions with an axis of time and sums over time are computed first; of all others, before which
  /// phase.
  std::map<std::string, int> home;
  std::map<std::pair<int, std::string>, StoredSteps> stored;  // by phase and tensor
};

/// Nothing where no phase computes again what another one has computed: checkpoints save no memory then. Throws
/// TypeError where a scan reads itself in a way that needs all of its steps.
std::optional<Phases> phases_of(const Program& program, const Clock& clock);

}  // namespace moxie
