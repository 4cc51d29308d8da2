#pragma once
// Nest: the loops around the definitions of one kernel, and the schedule steps as functions from nest to nest.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/schedule/schedule.h"

namespace moxie {

/// The loop over one axis of a definition.
struct NestLoop {
  std::uint32_t axis = 0;
  std::string name;
  std::int64_t unroll = 1;
  bool lanes = false;
  bool parallel = false;
  bool operator==(const NestLoop&) const = default;
};

/// What lower() makes of a definition whatever its loops are, and whatever else the nest computes.
struct PreparedRoot {
  Expr guarded;         // its body, with the guards that keep accesses inside their tensors
  std::string comment;  // its text
  bool operator==(const PreparedRoot&) const = default;
};

/// One definition that a kernel computes, with its loops, outermost first. An axis that is split is two axes of
/// `definition`; `element` tells where in the tensor an element lies then, and is empty where no axis is split.
struct NestRoot {
  Definition definition;
  std::vector<NestLoop> loops;
  std::vector<Affine> element = {};
  std::optional<PreparedRoot> prepared = {};  // made where it is missing
  bool operator==(const NestRoot&) const = default;
};

struct Nest {
  std::vector<NestRoot> roots;
  int lanes_depth = 0;      // reductions at this depth are vector loops: 1 directly inside the axes' loops; 0: none
  int chunks_depth = 0;     // the reduction at this depth is split into chunks with partial results; 0: none
  std::int64_t chunks = 1;  // at most; one for each iteration where there are fewer
  int team = 0;             // threads of a GPU that compute an element together; 0: vectors of a processor
  /// Loops down to the one of lanes are those of elements: what fewer of them change is computed inside of them all.
  bool computes_in_elements = false;
  std::vector<Expr> in_place = {};  // bodies of the roots that read none of each other, made where they are missing
  bool operator==(const Nest&) const = default;
};

/// The loops in the order of the axes, all of them serial. Of a definition of a scan those of one step.
Nest plain_nest(std::span<const Definition> definitions);
/// The iterations of a range between numbers or dims, which may start above 0; fewer than none where it ends before.
std::optional<Affine> iterations_between_dims(const Range& range);
/// Throws CompileError where the step names a loop that is not there or is not legal: the message names the step, the
/// kernel and what is legal there.
Nest apply(const ScheduleStep& step, Nest nest);
Nest apply(const Schedule& schedule, Nest nest);

}  // namespace moxie
