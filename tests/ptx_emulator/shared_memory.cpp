#include "tests/ptx_emulator/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace moxie::ptx {

void SharedMemory::begin_block() {
  std::ranges::fill(bytes_, std::byte{0xff});
  std::ranges::fill(cells_, Cell());
  epoch_ = 1;
}

void SharedMemory::note_read(Cell& cell, Thread thread) const {
  if (covers(cell.read, thread)) return;
  // Field by field: a copy of the whole would wait for its parts to be stored.
  Visit& read = cell.read;
  const bool is_first = read.epoch != epoch_;
  read.several_warps = !is_first && read.warp != thread.warp;
  read.several_lanes =
      !is_first && read.warp_epoch == thread.warp_epoch && (read.several_lanes || read.lane != thread.lane);
  read.epoch = epoch_;
  read.warp_epoch = thread.warp_epoch;
  read.warp = static_cast<std::uint16_t>(thread.warp);
  read.lane = static_cast<std::uint8_t>(thread.lane);
}

std::string SharedMemory::note_all(std::uint64_t offset, std::uint64_t bytes, Thread thread, Kind kind) {
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
