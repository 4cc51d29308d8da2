#include "tests/ptx_emulator/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace moxie::ptx {

void SharedMemory::begin_block() {
  std::ranges::fill(bytes_, std::byte{0xff});
  std::ranges::fill(cells_, Cell());
  epoch_ = 1;
}

/// Whether nothing orders the earlier access before one of this thread.
bool SharedMemory::conflicts(const Visit& earlier, Thread thread) const {
  if (earlier.epoch != epoch_) return false;
  if (earlier.several_warps || earlier.warp != thread.warp) return true;
  return earlier.warp_epoch == thread.warp_epoch && (earlier.several_lanes || earlier.lane != thread.lane);
}

void SharedMemory::note_read(Cell& cell, Thread thread) const {
  const bool is_known = cell.read.epoch == epoch_ && cell.read.warp == thread.warp &&
                        cell.read.warp_epoch == thread.warp_epoch &&
                        (cell.read.several_lanes || cell.read.lane == thread.lane);
  if (is_known) return;  // most reads are: lanes read the same numbers again and again
  Visit now{epoch_, thread.warp_epoch, static_cast<std::uint16_t>(thread.warp), static_cast<std::uint8_t>(thread.lane)};
  if (const Visit& before = cell.read; before.epoch == epoch_) {
    const bool same_warp = before.warp == thread.warp;
    now.several_warps = before.several_warps || !same_warp;
    now.several_lanes = before.warp_epoch == thread.warp_epoch && (before.several_lanes || before.lane != thread.lane);
  }
  cell.read = now;
}

std::string SharedMemory::note(std::uint64_t offset, std::uint64_t bytes, Thread thread, Kind kind) {
  for (std::uint64_t k = offset / 4; k < (offset + bytes + 3) / 4; ++k) {
    Cell& cell = cells_[k];
    const bool atomics_only = kind == Kind::atomic && cell.write.is_atomic;
    if (kind != Kind::write && cell.write.epoch == 0)
      return fmt::format("reads shared memory at byte {} that nothing has written", offset);
    if (bytes >= 4 && !atomics_only && conflicts(cell.write, thread))
      return fmt::format("races for shared memory at byte {} with a write of warp {}, lane {}", offset, cell.write.warp,
                         cell.write.lane);
    if (bytes >= 4 && kind == Kind::write && conflicts(cell.read, thread))
      return fmt::format("races for shared memory at byte {} with a read of warp {}, lane {}", offset, cell.read.warp,
                         cell.read.lane);
    if (kind == Kind::read)
      note_read(cell, thread);
    else
      cell.write = {epoch_, thread.warp_epoch, static_cast<std::uint16_t>(thread.warp),
                    static_cast<std::uint8_t>(thread.lane), kind == Kind::atomic};
  }
  return {};
}

}  // namespace moxie::ptx
