#pragma once
// What rewrites before derivatives count with.
#include <algorithm>

#include "compiler/program/declared_extents.h"

namespace moxie {

/// The extent that is assumed where none is known.
inline constexpr double kAssumedExtent = 256;
/// The terms that a definition of its own must save: what one more parallel loop costs, about 3 us, at a nanosecond for
/// a term.
inline constexpr double kMinSaved = 4096;

inline double extent_or_assumed(const Program& program, const Affine& extent) {
  const auto value = value_in_text(program, extent);
  return value ? std::max(static_cast<double>(*value), 1.0) : kAssumedExtent;
}

}  // namespace moxie
