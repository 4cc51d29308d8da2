#pragma once
// The shared memory of a block, which knows for every 4 bytes who wrote and read them last: two threads that access the
// same bytes, one of them writing, need a barrier between.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moxie::ptx {

class SharedMemory {
 public:
  explicit SharedMemory(std::uint64_t bytes) : bytes_(bytes), cells_((bytes + 3) / 4) {}

  /// Full of garbage, as every block finds it.
  void begin_block();
  /// Orders all accesses before against all that follow.
  void barrier() { ++epoch_; }

  /// Who accesses: a thread by its warp and lane, and how often the lanes of this warp were synchronised.
  struct Thread {
    std::uint32_t warp, lane, warp_epoch;
  };
  enum class Kind : std::uint8_t { read, write, atomic };
  /// What is wrong with the access, which lies within the memory; empty if nothing is.
  std::string note(std::uint64_t offset, std::uint64_t bytes, Thread thread, Kind kind) {
    // Most reads tell nothing new: lanes and warps read the same numbers again and again.
    if (kind == Kind::read && bytes >= 4 && is_known_read(offset / 4, (offset + bytes) / 4, thread)) return {};
    return note_all(offset, bytes, thread, kind);
  }

  std::span<std::byte> bytes() { return bytes_; }

 private:
  struct Visit {
    std::uint32_t epoch = 0;  // 0: never
    std::uint32_t warp_epoch = 0;
    std::uint16_t warp = 0;
    std::uint8_t lane = 0;
    bool is_atomic = false;
    bool several_lanes = false, several_warps = false;  // of readers
  };
  struct Cell {
    Visit write, read;
  };
  bool is_known_read(std::uint64_t begin, std::uint64_t end, Thread thread) const {
    for (std::uint64_t k = begin; k < end; ++k) {
      const Cell& cell = cells_[k];
      if (cell.write.epoch == 0 || cell.write.epoch == epoch_ || !covers(cell.read, thread)) return false;
    }
    return true;
  }
  /// Whether a read by the thread adds nothing to these.
  bool covers(const Visit& read, Thread thread) const {
    return read.epoch == epoch_ &&
           (read.several_warps || (read.warp == thread.warp && read.warp_epoch == thread.warp_epoch &&
                                   (read.several_lanes || read.lane == thread.lane)));
  }
  std::string note_all(std::uint64_t offset, std::uint64_t bytes, Thread thread, Kind kind);
  /// Whether nothing orders the earlier access before one of this thread.
  bool conflicts(const Visit& earlier, Thread thread) const {
    if (earlier.epoch != epoch_) return false;
    if (earlier.several_warps || earlier.warp != thread.warp) return true;
    return earlier.warp_epoch == thread.warp_epoch && (earlier.several_lanes || earlier.lane != thread.lane);
  }
  void note_read(Cell& cell, Thread thread) const;

  std::vector<std::byte> bytes_;
  std::vector<Cell> cells_;
  std::uint32_t epoch_ = 1;
};

}  // namespace moxie::ptx
