// Branches, barriers, and what lanes of a warp tell each other.
#include <fmt/format.h>

#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

/// The lane that a shuffle reads from, and whether it is within the segment of the reading lane. `bounds` holds the
/// last lane of a segment in bits 0 to 4, and the bits of a lane's number that name its segment in bits 8 to 12.
struct Source {
  unsigned lane;
  bool is_inside;
};
using FindSource = Source (*)(unsigned lane, unsigned by, unsigned bounds);

unsigned last_of_segment(unsigned lane, unsigned bounds) {
  const unsigned segment = bounds >> 8 & 31;
  return (lane & segment) | (bounds & 31 & ~segment);
}

Source from_above(unsigned lane, unsigned by, unsigned bounds) {
  return {lane + by, lane + by <= last_of_segment(lane, bounds)};
}
Source from_below(unsigned lane, unsigned by, unsigned bounds) {
  const unsigned first = last_of_segment(lane, bounds);  // for "up" the bounds hold the first lane
  return {lane - by, lane >= by && lane - by >= first};
}
Source across(unsigned lane, unsigned by, unsigned bounds) {
  return {lane ^ by, (lane ^ by) <= last_of_segment(lane, bounds)};
}
Source by_index(unsigned lane, unsigned index, unsigned bounds) {
  const unsigned segment = bounds >> 8 & 31;
  const unsigned source = (lane & segment) | (index & ~segment);
  return {source, source <= last_of_segment(lane, bounds)};
}

/// The lanes named by the member mask, which is the same in all of them and names every lane that is here.
Mask members(Warp& warp, Slot slot, Mask mask) {
  const auto* masks = warp.lanes<std::uint32_t>(slot);
  Mask named = 0;
  for_each_lane(mask, [&](unsigned lane) {
    if ((masks[lane] >> lane & 1) == 0)
      warp.fail(Reason::launch_failed, lane, fmt::format("is not named by its member mask {:#x}", masks[lane]));
    if ((masks[lane] & ~warp.all_lanes()) != 0 && masks[lane] != kAllLanes)
      warp.fail(Reason::launch_failed, lane, fmt::format("waits for lanes that do not exist: {:#x}", masks[lane]));
    named |= masks[lane];
  });
  return named & warp.all_lanes();
}

template <FindSource find_source>
void shuffle(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto& slots = instruction.slots;
  const Mask named = members(warp, slots[5], mask);
  if (!warp.meet(mask, named)) return;
  const auto* values = warp.lanes<std::uint32_t>(slots[2]);
  std::uint32_t results[kLanes] = {};
  std::uint8_t inside[kLanes] = {};
  for_each_lane(mask, [&](unsigned lane) {
    const Source source =
        find_source(lane, warp.lanes<std::uint32_t>(slots[3])[lane] & 31, warp.lanes<std::uint32_t>(slots[4])[lane]);
    inside[lane] = source.is_inside ? 1 : 0;
    const unsigned from = source.is_inside ? source.lane : lane;
    if ((mask >> from & 1) == 0)
      warp.fail(Reason::launch_failed, lane, fmt::format("reads the value of lane {}, which takes no part", from));
    results[lane] = values[from];
  });
  write_lanes(warp.lanes<std::uint32_t>(slots[0]), results, mask);
  write_lanes(warp.lanes<std::uint8_t>(slots[1]), inside, mask);
}

/// `decide` gives what all voters learn, a predicate (one byte) or a ballot (four).
template <class R, auto decide>
void vote(Warp& warp, const Instruction& instruction, Mask mask) {
  const Mask named = members(warp, instruction.slots[2], mask);
  if (!warp.meet(mask, named)) return;
  Mask votes = 0;
  for_each_lane(mask, [&](unsigned lane) {
    if (warp.lanes<std::uint8_t>(instruction.slots[1])[lane] != 0) votes |= Mask{1} << lane;
  });
  R results[kLanes];
  std::fill_n(results, kLanes, static_cast<R>(decide(votes, mask)));
  write_lanes(warp.lanes<R>(instruction.slots[0]), results, mask);
}

void block_barrier(Warp& warp, const Instruction&, Mask mask) {
  if (warp.meet(mask, warp.all_lanes())) warp.wait_for_block();
}

void warp_barrier(Warp& warp, const Instruction& instruction, Mask mask) {
  if (warp.meet(mask, members(warp, instruction.slots[0], mask))) warp.order_lanes();
}

}  // namespace

Step branch_step() {
  return [](Warp& warp, const Instruction& instruction, Mask mask) { warp.branch(mask, instruction.target); };
}
Step exit_step() {
  return [](Warp& warp, const Instruction&, Mask mask) { warp.end(mask); };
}
Step block_barrier_step() { return block_barrier; }
Step warp_barrier_step() { return warp_barrier; }
/// Nothing to do: what a lane writes is seen by all that come later.
Step fence_step() {
  return [](Warp&, const Instruction&, Mask) {};
}
Step trap_step() {
  return [](Warp& warp, const Instruction&, Mask mask) {
    warp.fail(Reason::launch_failed, static_cast<unsigned>(std::countr_zero(mask)), "ends the kernel");
  };
}

Step shuffle_step(std::string_view mode) {
  if (mode == "up") return shuffle<from_below>;
  if (mode == "down") return shuffle<from_above>;
  if (mode == "bfly") return shuffle<across>;
  if (mode == "idx") return shuffle<by_index>;
  return nullptr;
}

Step vote_step(std::string_view mode) {
  if (mode == "all") return vote<std::uint8_t, [](Mask votes, Mask voters) { return votes == voters; }>;
  if (mode == "any") return vote<std::uint8_t, [](Mask votes, Mask) { return votes != 0; }>;
  if (mode == "uni") return vote<std::uint8_t, [](Mask votes, Mask voters) { return votes == 0 || votes == voters; }>;
  if (mode == "ballot") return vote<std::uint32_t, [](Mask votes, Mask) { return votes; }>;
  return nullptr;
}

Step active_mask_step() {
  return [](Warp& warp, const Instruction& instruction, Mask mask) {
    for_each_lane(mask, [&](unsigned lane) { warp.lanes<std::uint32_t>(instruction.slots[0])[lane] = mask; });
  };
}

}  // namespace moxie::ptx
