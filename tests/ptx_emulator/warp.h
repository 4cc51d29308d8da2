#pragma once
// Warp: 32 threads in lock step. Lanes that branch apart form groups; the group with the lowest program counter runs,
// and groups that meet join. Compilers lay loops and branches out forwards, so that lanes reconverge where the branches
// end.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/ptx_emulator/device_memory.h"
#include "tests/ptx_emulator/fault.h"
#include "tests/ptx_emulator/machine.h"
#include "tests/ptx_emulator/shared_memory.h"

namespace moxie::ptx {

struct Launch {
  const Kernel& kernel;
  Extent grid, block;
  std::vector<std::byte> parameters;
  const DeviceMemory& memory;
};

enum class Access : std::uint8_t { read, write, atomic };

class Warp {
 public:
  enum class State : std::uint8_t { running, at_barrier, ended };

  /// `number` is that in the block.
  Warp(const Launch& launch, SharedMemory& shared, unsigned number);
  void begin_block(Extent position);
  /// Until all lanes wait at one barrier of the block, or have ended. Throws Fault.
  void run();
  State state() const { return state_; }
  /// The instruction at which the warp waits.
  std::uint32_t waits_at() const { return pc_ - 1; }

  // ---- For the steps of instructions ----

  /// The values of a register in all lanes.
  template <class T>
  T* lanes(Slot slot) {
    return reinterpret_cast<T*>(registers_.data() + slot);
  }
  Mask active() const { return active_; }
  /// Continues the lanes of `taken`, active all of them, at the instruction `target`.
  void branch(Mask taken, std::uint32_t target);
  void end(Mask lanes);
  /// Whether the lanes of `needed` are all in `mask`; if not, those of `mask` wait for them, at this instruction.
  bool meet(Mask mask, Mask needed);
  void wait_for_block() { state_ = State::at_barrier; }
  /// Orders accesses of the lanes to shared memory.
  void order_lanes() { ++shared_epoch_; }
  /// Where `bytes` from `address` on lie in the memory of the host, after all checks.
  std::byte* locate(Space space, std::uint64_t address, std::uint64_t bytes, unsigned lane, Access access);
  Mask all_lanes() const { return all_; }
  Slot carry() const { return launch_.kernel.carry; }
  [[noreturn]] void fail(Reason reason, unsigned lane, const std::string& what) const;

 private:
  struct Group {
    std::uint32_t pc;
    Mask lanes;
    bool waits;
  };
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  void fill_constants();
  void regroup();
  void park(std::uint32_t pc, Mask lanes, bool waits);
  [[noreturn]] void fail_apart() const;
  std::string describe(std::uint32_t pc) const;
  std::byte* locate_global(std::uint64_t address, std::uint64_t bytes, unsigned lane);

  const Launch& launch_;
  SharedMemory& shared_;
  unsigned number_;
  std::vector<std::byte> storage_;
  std::span<std::byte> registers_;  // aligned in the storage
  std::vector<std::byte> local_;    // one lane after the other
  Extent position_;
  State state_ = State::running;
  Mask all_ = 0, active_ = 0;
  std::uint32_t pc_ = 0;
  std::uint32_t next_group_ = kNever;  // where the lowest of the other groups is
  std::vector<Group> groups_;          // the other groups
  DeviceMemory::Range recent_;         // the allocation that was used last
  std::uint32_t shared_epoch_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace moxie::ptx
