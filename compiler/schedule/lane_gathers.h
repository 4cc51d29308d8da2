#pragma once
// What vector lanes gather from memory element by element, and copies of tensors from which they load whole vectors.
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "compiler/schedule/nest.h"

namespace moxie {

/// Lanes of a definition's loops lie along this axis of a tensor, which is not its fastest, and read the same elements
/// again in many iterations of other loops, or the same lines of memory in the steps of a scan.
struct LaneGather {
  std::string definition, tensor;
  std::uint32_t axis = 0;
  auto operator<=>(const LaneGather&) const = default;
};

/// Whose lanes gather: the loops that the search found, or other loops over the same definition.
enum class GatheringLanes : std::uint8_t { found, along_sums, along_rows, along_other_axis };
inline constexpr std::array kGatheringLanes = {GatheringLanes::found, GatheringLanes::along_sums,
                                               GatheringLanes::along_rows, GatheringLanes::along_other_axis};

/// What lanes of each kind gather, with the estimated cost of the nest that does.
struct LaneGathers {
  std::array<std::map<LaneGather, double>, kGatheringLanes.size()> by_lanes;

  const std::map<LaneGather, double>& of(GatheringLanes lanes) const {
    return by_lanes[static_cast<std::size_t>(lanes)];
  }
  /// Those of other nests, each of which runs `times` times.
  void add(const LaneGathers& others, double times = 1);
};
/// The gathers of a nest of this cost.
LaneGathers lane_gathers(const Program& program, const Nest& nest, const DimValues& extents, double cost);

std::set<LaneGather> gathers_of(const Program& program, const Nest& nest);
/// The gathers of the definition if its lanes run along its sums.
std::set<LaneGather> gathers_along_sums(const Program& program, const Definition& definition);
/// The gathers of a definition that reads by value if its lanes run along its last axis; of others none.
std::set<LaneGather> gathers_along_rows(const Program& program, const Definition& definition);
/// The gathers of the nest's first definition if its lanes run along another of its axes: the one for which copies of
/// what they gather are smallest. None where the nest has no lanes along an axis.
std::set<LaneGather> gathers_along_other_axis(const Program& program, const Nest& nest, const DimValues& extents);
/// The program with a copy of each of these tensors whose last axis is the one of the lanes, and the definitions
/// reading the copies there.
Program with_copies(const Program& program, const std::set<LaneGather>& gathers);

}  // namespace moxie
