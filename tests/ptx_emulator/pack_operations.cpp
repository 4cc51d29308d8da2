// Moves between a register and a vector of narrower ones.
#include "tests/ptx_emulator/operations.h"

namespace moxie::ptx {
namespace {

template <class Whole, class Part>
void unpack(Warp& warp, const Instruction& instruction, Mask mask) {
  Whole whole[kLanes];
  std::memcpy(whole, warp.lanes<Whole>(instruction.slots[0]), sizeof whole);  // a part may be written over it
  for (unsigned k = 0; k < sizeof(Whole) / sizeof(Part); ++k) {
    Part part[kLanes];
    for (unsigned lane = 0; lane < kLanes; ++lane) part[lane] = static_cast<Part>(whole[lane] >> 8 * sizeof(Part) * k);
    write_lanes(warp.lanes<Part>(instruction.slots[k + 1]), part, mask);
  }
}

template <class Whole, class Part>
void pack(Warp& warp, const Instruction& instruction, Mask mask) {
  Whole whole[kLanes] = {};
  for (unsigned k = 0; k < sizeof(Whole) / sizeof(Part); ++k) {
    const Part* part = warp.lanes<Part>(instruction.slots[k + 1]);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      whole[lane] = static_cast<Whole>(whole[lane] | static_cast<Whole>(part[lane]) << 8 * sizeof(Part) * k);
  }
  write_lanes(warp.lanes<Whole>(instruction.slots[0]), whole, mask);
}

}  // namespace

Step unpack_step(unsigned whole_bytes, unsigned part_bytes) {
  if (whole_bytes == 8 && part_bytes == 4) return unpack<std::uint64_t, std::uint32_t>;
  if (whole_bytes == 8 && part_bytes == 2) return unpack<std::uint64_t, std::uint16_t>;
  if (whole_bytes == 4 && part_bytes == 2) return unpack<std::uint32_t, std::uint16_t>;
  return nullptr;
}

Step pack_step(unsigned whole_bytes, unsigned part_bytes) {
  if (whole_bytes == 8 && part_bytes == 4) return pack<std::uint64_t, std::uint32_t>;
  if (whole_bytes == 8 && part_bytes == 2) return pack<std::uint64_t, std::uint16_t>;
  if (whole_bytes == 4 && part_bytes == 2) return pack<std::uint32_t, std::uint16_t>;
  return nullptr;
}

}  // namespace moxie::ptx
