#pragma once
// Choosing: the kernels of a Program for a processor, each with the schedule of the lowest estimated cost.
#include <string>
#include <vector>

#include "compiler/schedule/search.h"

namespace moxie {

/// Why a kernel looks as it does, for dumps.
struct ScheduleChoice {
  std::string kernel;
  std::string chosen;                     // the schedule as text, or "shared loops" for a kernel that fusion arranged
  double seconds = 0;                     // by estimate
  std::vector<std::string> alternatives;  // the best that were not taken, with their estimates
  bool operator==(const ScheduleChoice&) const = default;
};

struct ScheduledProgram {
  FusedProgram fused;
  std::vector<LoweredStep> steps;
  std::vector<ScheduleChoice> choices;
  double objective = 0;  // of all kernels, by estimate
  double least = 0;      // of this, what no other loops save
};

/// A deterministic choice: of the layouts that fusion wants and of plain row-major ones, and for each kernel of the
/// loops that fusion arranged and of nests for its definitions. `extents` has a value for every dim: exact for static
/// ones, typical for the others.
ScheduledProgram schedule(const Program& optimised, Products products, const DimValues& extents,
                          const Machine& machine);

}  // namespace moxie
