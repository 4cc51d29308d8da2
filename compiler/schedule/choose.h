#pragma once
// Choosing: the kernels of a Program for a processor, each with the schedule of the lowest estimated cost.
#include <map>
#include <string>
#include <vector>

#include "compiler/schedule/lane_gathers.h"
#include "compiler/schedule/search.h"

namespace moxie {

/// Why a kernel looks as it does, for dumps.
struct ScheduleChoice {
  std::string kernel;
  std::string chosen;                     // the schedule as text, or "shared loops" for a kernel that fusion arranged
  double seconds = 0;                     // by estimate; of a scan: of one step
  std::string reason;                     // what the estimate is made of, and whether somebody gave the schedule
  std::vector<std::string> alternatives;  // the best that were not taken, with their estimates
  bool operator==(const ScheduleChoice&) const = default;
};

/// Schedules to take whatever they cost, by the names of definitions or of their kernels ("y" or "k_y").
using GivenSchedules = std::map<std::string, Schedule>;

struct ScheduledProgram {
  FusedProgram fused;
  std::vector<LoweredStep> steps;
  std::vector<ScheduleChoice> choices;
  double objective = 0;                      // of all kernels, by estimate
  double excess = 0;                         // the most of it that other loops could save
  std::map<std::string, double> objectives;  // the same for each kernel, all steps of a scan together
  std::set<std::string> single_forms;        // kernels for which no other loops are tried
  std::size_t candidates = 0;                // loops that were lowered to choose among
  LaneGathers gathers = {};                  // what lanes of all nests gather, chosen or not
};

/// A deterministic choice: of the layouts that fusion wants and of plain row-major ones, with copies of what lanes
/// would gather or without, and for each kernel of the loops that fusion arranged and of nests for its definitions.
/// `extents` has a value for every dim: exact for static ones, typical for the others. A fused kernel that computes a
/// definition with a given schedule becomes a nest for each of its definitions. Names in `given` that no kernel
/// computes are ignored. Throws CompileError for a given schedule that is not legal.
ScheduledProgram schedule(const Program& optimised, Products products, const DimValues& extents, const Machine& machine,
                          const GivenSchedules& given = {});

}  // namespace moxie
