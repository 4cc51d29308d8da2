// The border between a kernel built as C++ and the machine that runs its threads (runtime/cuda/emulator). Both sides
// include this file; it includes nothing, since it is compiled with every kernel.
#pragma once

namespace moxie_emulation {

using u32 = unsigned;
using u64 = unsigned long long;
using i64 = long long;

struct Triple {
  u32 x = 1, y = 1, z = 1;
};

/// Who touched 4 bytes last. A stamp is (time << 11) | (atomic << 10) | thread of the block; time grows with every
/// barrier, warp operation and block, and never repeats in a process, so that what earlier blocks and launches left
/// needs no clearing.
struct Shadow {
  u64 write, read;
  u32 lanes;   // that have read, of the warp of `read`
  u32 spread;  // Spread
};
inline constexpr u32 kGranule = 4;

enum class Space : u32 { global, shared };

/// An element for messages.
struct Place {
  const char* name;
  i64 index;
  Space space;
};

/// Device memory from a kernel's argument to the end of its allocation.
struct Region {
  void* data;
  Shadow* shadow;
  i64 bytes;
};

enum class WarpKind : u32 { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot, any, all };

struct WarpCall {
  WarpKind kind = WarpKind::sync;
  u32 mask = 0;
  int line = 0;
  u64 value = 0;
  u32 argument = 0;  // the lane, delta or lane mask of a shuffle
  u32 width = 32;
};

/// Kernels reach the host through virtual functions only, so that a module needs no symbol of the program that loads
/// it. Functions that find a kernel at fault do not return to it.
class Machine {
 public:
  u64 stamp = 0;  // of accesses by the running thread
  Triple thread_index, block_index, block_dim, grid_dim;
  u64 block_start = 0;  // the time at which the block began

  // The first two are called where the stamps do not show at once that all is well.
  virtual void read(Shadow& shadow, Place place) = 0;
  virtual void write(Shadow& shadow, Place place) = 0;
  virtual void atomic(Shadow& shadow, Place place) = 0;
  virtual void fence() = 0;
  virtual void barrier(int line) = 0;
  virtual u64 warp(const WarpCall& call) = 0;
  virtual u32 active_lanes() = 0;
  virtual void outside(Place place, i64 count) = 0;
  virtual void too_long(const char* name, i64 count, i64 available) = 0;  // EXTENT beyond the memory
  virtual void misaligned(Place place, u32 alignment) = 0;

  virtual Region resolve(u64 device_pointer, u32 parameter) = 0;
  /// The first use of a static shared array in a block.
  virtual void claim_shared(const char* name, i64 bytes) = 0;
  virtual Region dynamic_shared() = 0;

  /// Runs the whole grid: `body(closure)` once per thread.
  virtual void run(void (*body)(void*), void* closure) = 0;

 protected:
  ~Machine() = default;
};

/// What a module exports for each entry point `f` as `moxie_entry_f`.
struct EntryPoint {
  void (*launch)(void** parameters);
  const u32* parameter_bytes;
  u32 parameters;
};
/// Exported as `moxie_attach`: called once, when the module is loaded.
using Attach = void(Machine*);

}  // namespace moxie_emulation
