#pragma once
// Which axes of definitions are the time of checkpointed scans, and where definitions read each other in time.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// What scans with checkpoints that run together have in common.
struct Clock {
  std::string name;  // the name of the index
  Affine steps;
  Checkpoints checkpoints;
  bool operator==(const Clock&) const = default;
};

/// That of the scan to which the definition belongs; nothing without checkpoints.
std::optional<Clock> clock_of(const Definition& definition);

/// A Program in which every definition is one of three: it has an axis of time and is computed step by step, it is a
/// sum over time of such, or it has nothing to do with time and reads what it needs of it as a whole.
struct TimedProgram {
  Program program;
  Clock clock;
  std::map<std::string, std::uint32_t> axes;  // definitions with an axis of time: which axis it is
  std::set<std::string> sums;                 // definitions that are sums over time

  bool is_timed(const std::string& name) const { return axes.contains(name); }
  bool is_sum(const std::string& name) const { return sums.contains(name); }
  /// Whether the definition belongs to a scan of the clock.
  bool steps(const Definition& definition) const { return clock_of(definition) == clock; }
};

/// `untimed` are definitions that are to have nothing to do with time, although they could.
TimedProgram timed_program(const Program& program, const Clock& clock, const std::set<std::string>& untimed);

/// A sum over several indices, of which one is time.
struct OpenedSum {
  std::vector<OpenedReduce> loops;  // outermost first
  std::size_t time = 0;             // which of them
  const Expr& summand() const { return loops.back().body; }
};
/// `sum` is the body of one of `sums`.
OpenedSum open_sum(const TimedProgram& timed, const Expr& sum);

/// What a definition reads of one that has an axis of time.
struct TimedRead {
  std::string tensor;
  std::optional<std::int64_t> offset;  // steps after the step at which it is read; none: not at a step near it
  bool operator<(const TimedRead& other) const {
    return std::tie(tensor, offset) < std::tie(other.tensor, other.offset);
  }
};
std::set<TimedRead> timed_reads(const TimedProgram& timed, const Definition& definition);
/// The offset in time of an access to a tensor with an axis of time, from `now`; none if it is no number.
std::optional<std::int64_t> offset_of(const TimedProgram& timed, const Expr& access, const Affine& now);

}  // namespace moxie
