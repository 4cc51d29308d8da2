#pragma once
// What vector lanes gather from memory element by element, and copies of tensors from which they load whole vectors.
#include <compare>
#include <cstdint>
#include <set>
#include <string>

#include "compiler/schedule/nest.h"

namespace moxie {

/// Lanes of a definition's loops lie along this axis of a tensor, which is not its fastest, and read the same elements
/// again in every round of another long loop.
struct LaneGather {
  std::string definition, tensor;
  std::uint32_t axis = 0;
  auto operator<=>(const LaneGather&) const = default;
};

std::set<LaneGather> gathers_of(const Program& program, const Nest& nest);
/// The program with a copy of each of these tensors whose last axis is the one of the lanes, and the definitions
/// reading the copies there.
Program with_copies(const Program& program, const std::set<LaneGather>& gathers);

}  // namespace moxie
