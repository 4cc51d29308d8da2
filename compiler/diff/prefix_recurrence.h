#pragma once
// Prefix reductions as recurrences: y[t] = max[u in 0..t+1](f(u)) is the larger of y[t-1] and f(t).
#include <optional>
#include <span>
#include <vector>

#include "compiler/diff/active_tensors.h"
#include "compiler/program/program.h"

namespace moxie {

/// A definition whose body is a reduction over a range that gains one element from one index of its first axis to the
/// next (or loses one: then the recurrence runs backwards), of a body that does not depend on that axis.
struct PrefixRecurrence {
  bool backwards = false;        // the last index of the axis comes first
  bool adds_in_front = false;    // what is added has the smallest index so far, else the largest
  Expr is_first;                 // whether an index of the axis is the one that comes first
  std::vector<Affine> previous;  // where the element before lies, in the axes
  Expr element;                  // what an index adds to it
  Expr follows;                  // whether the element before is one of something; empty where it always is
};
/// Nothing for other definitions, for members of scans, where the first element is a reduction by itself, and where the
/// axis has a few indices only.
std::optional<PrefixRecurrence> prefix_recurrence(const Program& program, const Definition& definition);

/// Gives each such reduction of another kind than a sum a definition of its own, along whose first axis it is a
/// recurrence. A sum over a prefix has the sum over a suffix as its adjoint; of the other kinds, derivatives take
/// linear work as recurrences only. Nothing is lifted that none of `active` takes part in (all are, without it).
Program lift_prefixes(const Program& program, std::span<const ReduceKind> kinds, const ActiveTensors* active);

/// A definition that is a prefix_recurrence(), by one step of it, for differentiate_body(): the body reads the
/// definition itself at the step before and has its derivatives, whatever its value.
Definition differentiable_step(const Definition& definition, const PrefixRecurrence& recurrence);

}  // namespace moxie
