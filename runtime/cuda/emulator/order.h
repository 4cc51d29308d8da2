#pragma once
// Order: which accesses of a launch are ordered by a barrier, a warp operation or a fence, and which race.
//
// The rule. Two accesses to one element, at least one of them a write, by two threads of a launch are ordered
//   - within a block: by a __syncthreads() in between; within a warp also by a warp operation in between whose mask
//   names both lanes, or by several
//     that lead from one to the other;
//   - between blocks: where the thread of the first access, or one that has passed a barrier with it since, did
//   __threadfence() and then an atomic
//     operation, and the thread of the second, or one that has passed a barrier with it since, did an atomic operation
//     before: on any address.
// Atomic operations do not race with each other. All others race. Elements smaller than 4 bytes and members of structs
// are not watched.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen_templates/cuda_emu/machine.h"

namespace moxie::cuda::emulator {

using moxie_emulation::Shadow;
using moxie_emulation::Space;
using Stamp = moxie_emulation::u64;

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMostThreads = 1024;  // of a block

/// Why an access is wrong.
struct Conflict {
  enum class Kind : std::uint8_t {
    read_after_write,
    write_after_write,
    write_after_read,
    never_written,  // shared memory
  };
  Kind kind;
  unsigned thread = 0;                    // the other one
  std::optional<std::size_t> block = {};  // where it is of another block
};

class Order {
 public:
  void begin_launch();
  void begin_block();
  std::uint64_t block_start() const { return block_start_; }
  Stamp stamp(unsigned thread) const;

  void barrier();
  /// `lanes` of a warp have met; `whole` if it has no others.
  void meet(unsigned warp, std::uint32_t lanes, bool whole);
  void fence(unsigned thread);

  std::optional<Conflict> read(Shadow& shadow, unsigned thread, Space space);
  std::optional<Conflict> write(Shadow& shadow, unsigned thread, Space space);
  std::optional<Conflict> atomic(Shadow& shadow, unsigned thread, Space space);

 private:
  struct Warp {
    std::uint64_t whole = 0;  // when all lanes met last
    std::array<std::array<std::uint64_t, kWarp>, kWarp>
        after{};  // [a][b]: what lane b did before this time precedes what a does now
  };
  struct Fence {
    std::uint64_t block_start = 0, barrier = 0, time = 0;
    unsigned thread = 0;
  };

  /// What happened before concerned other memory, or another launch.
  std::uint64_t horizon(Space space) const { return space == Space::shared ? block_start_ : launch_start_; }
  bool precedes(Stamp stamp, unsigned thread, Space space) const;
  bool published(Stamp stamp) const;
  bool reads_precede(const Shadow& shadow, unsigned thread, Space space) const;
  void note_reader(Shadow& shadow, unsigned thread, Space space) const;
  Conflict conflict(Conflict::Kind kind, Stamp other) const;
  void publish(unsigned thread);

  std::uint64_t time_ = 0, launch_start_ = 0, block_start_ = 0, barrier_ = 0;
  std::vector<std::uint64_t> block_starts_;  // of the launch so far
  std::array<Warp, kMostThreads / kWarp> warps_;
  std::array<Fence, kMostThreads> fences_;              // the last of each thread
  std::array<std::uint64_t, kMostThreads> acquired_{};  // when each thread did its last atomic operation
  std::uint64_t last_atomic_ = 0, block_acquired_ = 0;
  std::vector<Fence> published_;  // by growing time
};

}  // namespace moxie::cuda::emulator
