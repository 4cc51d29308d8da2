#pragma once
// Plans of Programs whose parts are planned one after the other, some of them to run in slices.
#include "compiler/schedule/choose.h"
#include "runtime/plan.h"

namespace moxie {

/// What schedule() makes of every part, as one: tensors that a part has of another are where that one put them.
class JointParts {
 public:
  /// `whole` is the Program that was taken apart.
  explicit JointParts(const Program& whole);
  /// `scheduled` is what became of the part.
  void add(const ProgramPart& part, ScheduledProgram scheduled);
  ScheduledProgram finish();

 private:
  void add_steps(ScheduledProgram part, const Slices& slices);
  void add_views(const Slices& slices, const Program& part);

  ScheduledProgram joint_;
};

}  // namespace moxie
