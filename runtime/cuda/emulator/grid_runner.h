#pragma once
// GridRunner: runs the threads of a launch, each as a fiber, block after block.
//
// A thread runs until it waits for others; a fiber whose thread has ended takes the next one that has not begun, so
// that a kernel without barriers switches no stacks. Kernels whose blocks wait for each other never end: without a
// cooperative launch CUDA does not promise that they do.
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/emulator/device_memory.h"
#include "runtime/cuda/emulator/driver_error.h"
#include "runtime/cuda/emulator/fiber.h"
#include "runtime/cuda/emulator/order.h"

namespace moxie::cuda::emulator {

using moxie_emulation::i64;
using moxie_emulation::Machine;
using moxie_emulation::Place;
using moxie_emulation::Region;
using moxie_emulation::Triple;
using moxie_emulation::u32;
using moxie_emulation::u64;
using moxie_emulation::WarpCall;

struct LaunchShape {
  Triple grid, block;
  unsigned shared_bytes = 0;  // dynamic
};

/// Where element `number` lies, x first.
Triple unravel(u64 number, Triple extent);

class GridRunner final : private Machine {
 public:
  explicit GridRunner(DeviceMemory& memory) : memory_(memory) {}

  /// What modules are attached to.
  Machine& machine() { return *this; }

  /// Runs a kernel to its end. Throws DriverError with the first check that failed: kernel, block, thread, what and
  /// where.
  void launch(const std::string& kernel, const moxie_emulation::EntryPoint& entry, const LaunchShape& shape,
              void** parameters);

 private:
  enum class State : std::uint8_t { unborn, running, at_barrier, at_warp, finished };
  struct Thread {
    State state = State::unborn;
    std::size_t fiber = 0;
    int line = 0;  // where it waits
    WarpCall call = {};
    u64 result = 0;
  };
  struct Failure {
    Result code;
    std::string what;
    bool in_thread;
  };

  // What kernels call.
  void read(Shadow& shadow, Place place) override { check(order_.read(shadow, current_, place.space), place); }
  void write(Shadow& shadow, Place place) override { check(order_.write(shadow, current_, place.space), place); }
  void atomic(Shadow& shadow, Place place) override { check(order_.atomic(shadow, current_, place.space), place); }
  void fence() override;
  void barrier(int line) override;
  u64 warp(const WarpCall& call) override;
  u32 active_lanes() override;
  void outside(Place place, i64 count) override;
  void too_long(const char* name, i64 count, i64 available) override;
  void misaligned(Place place, u32 alignment) override;
  Region resolve(u64 pointer, u32 parameter) override;
  void claim_shared(const char* name, i64 bytes) override;
  Region dynamic_shared() override;
  void run(void (*body)(void*), void* closure) override;

  // Blocks and threads.
  void run_block(Triple index);
  void step();
  void start_fiber();
  void work();
  void become(unsigned thread);
  void finish();
  void suspend();
  void wait(State state, int line);

  // Warps.
  u32 existing_lanes(unsigned warp) const;
  bool have_met(unsigned warp, u32 lanes, const WarpCall& call) const;
  void complete(unsigned warp, u32 lanes);
  u64 result(unsigned thread, u32 lanes);

  // Messages.
  void check(const std::optional<Conflict>& conflict, Place place);
  void fail(Result code, std::string what);
  void fail_stuck();
  std::string name(unsigned thread) const;
  std::string whereabouts(unsigned thread) const;
  std::string failure_text() const;
  std::string stuck_text() const;
  std::string conflict_text(const Conflict& conflict, Place place) const;
  std::string source_text(unsigned thread, unsigned source) const;

  DeviceMemory& memory_;
  Order order_;
  std::string kernel_;
  unsigned current_ = 0;  // the running thread
  unsigned begun_ = 0, finished_ = 0, at_barrier_ = 0;
  bool on_fiber_ = false;
  std::vector<Thread> threads_;
  std::vector<Triple> indices_;  // of the threads
  std::deque<unsigned> ready_;
  std::array<u32, kMostThreads / kWarp> waiting_lanes_{};
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::size_t> free_fibers_;
  void (*body_)(void*) = nullptr;
  void* closure_ = nullptr;
  std::optional<Failure> failure_;
  i64 shared_bytes_ = 0;  // that the block has claimed
  std::vector<unsigned char> dynamic_;
  std::vector<Shadow> dynamic_shadow_;
};

/// Texts about a call: its name and line; a mask or width that cannot be.
std::string operation(const WarpCall& call);
std::string own_lane_text(const WarpCall& call, unsigned lane);
std::string width_text(const WarpCall& call);

}  // namespace moxie::cuda::emulator
