#include "runtime/cuda/emulator/order.h"

#include <algorithm>
#include <bit>

namespace moxie::cuda::emulator {
namespace {

constexpr unsigned kThreadBits = 10;
constexpr Stamp kAtomic = Stamp{1} << kThreadBits;

enum Spread : moxie_emulation::u32 { kOneWarp, kSeveralWarps, kSeveralBlocks };

std::uint64_t time_of(Stamp stamp) { return stamp >> (kThreadBits + 1); }
unsigned thread_of(Stamp stamp) { return static_cast<unsigned>(stamp & (kAtomic - 1)); }
std::uint32_t lane_bit(unsigned thread) { return std::uint32_t{1} << (thread % kWarp); }

}  // namespace

void Order::begin_launch() {
  launch_start_ = ++time_;
  block_starts_.clear();
  published_.clear();
}

void Order::begin_block() {
  block_start_ = ++time_;
  block_starts_.push_back(block_start_);
}

Stamp Order::stamp(unsigned thread) const { return (time_ << (kThreadBits + 1)) | thread; }

void Order::barrier() {
  barrier_ = ++time_;
  if (last_atomic_ >= block_start_) block_acquired_ = time_;
}

void Order::meet(unsigned warp, std::uint32_t lanes, bool whole) {
  ++time_;
  Warp& state = warps_[warp];
  if (whole) {
    state.whole = time_;
    return;
  }
  std::array<std::uint64_t, kWarp> joined{};
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto& row = state.after[static_cast<unsigned>(std::countr_zero(rest))];
    for (unsigned k = 0; k < kWarp; ++k) joined[k] = std::max(joined[k], row[k]);
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) joined[lane] = time_;
  }
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    state.after[static_cast<unsigned>(std::countr_zero(rest))] = joined;
}

void Order::fence(unsigned thread) { fences_[thread] = {block_start_, barrier_, ++time_, thread}; }

/// An atomic operation releases what lies before the thread's last fence, and acquires what others have released.
void Order::publish(unsigned thread) {
  Fence& fence = fences_[thread];
  if (fence.time >= block_start_) {
    published_.push_back(fence);
    fence.time = 0;
  }
  acquired_[thread] = last_atomic_ = time_;
}

bool Order::published(Stamp stamp) const {
  const std::uint64_t time = time_of(stamp);
  auto fence = std::ranges::upper_bound(published_, time, {}, &Fence::time);
  for (; fence != published_.end() && fence->block_start <= time; ++fence) {
    if (time < fence->barrier || thread_of(stamp) == fence->thread) return true;
  }
  return false;
}

bool Order::precedes(Stamp stamp, unsigned thread, Space space) const {
  const std::uint64_t time = time_of(stamp);
  const unsigned other = thread_of(stamp);
  if (time < horizon(space)) return true;
  if (time < block_start_)
    return (acquired_[thread] >= block_start_ || block_acquired_ >= block_start_) && published(stamp);
  if (other == thread || time < barrier_) return true;
  if (other / kWarp != thread / kWarp) return false;
  const Warp& warp = warps_[thread / kWarp];
  return time < warp.whole || time < warp.after[thread % kWarp][other % kWarp];
}

bool Order::reads_precede(const Shadow& shadow, unsigned thread, Space space) const {
  const std::uint64_t time = time_of(shadow.read);
  if (time < horizon(space)) return true;
  if (shadow.spread == kSeveralBlocks) return false;
  if (time < block_start_)
    return shadow.spread == kOneWarp && std::has_single_bit(shadow.lanes) && precedes(shadow.read, thread, space);
  if (time < barrier_) return true;
  if (shadow.spread == kSeveralWarps || thread_of(shadow.read) / kWarp != thread / kWarp) return false;
  const Warp& warp = warps_[thread / kWarp];
  if (time < warp.whole) return true;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((shadow.lanes >> lane & 1) != 0 && lane != thread % kWarp && time >= warp.after[thread % kWarp][lane])
      return false;
  }
  return true;
}

/// Readers that precede this one need not be remembered: what follows this one follows them.
void Order::note_reader(Shadow& shadow, unsigned thread, Space space) const {
  if (reads_precede(shadow, thread, space)) {
    shadow.spread = kOneWarp;
    shadow.lanes = lane_bit(thread);
  } else if (time_of(shadow.read) < block_start_) {
    shadow.spread = kSeveralBlocks;
  } else if (thread_of(shadow.read) / kWarp != thread / kWarp) {
    shadow.spread = std::max<moxie_emulation::u32>(shadow.spread, kSeveralWarps);
  } else {
    shadow.lanes |= lane_bit(thread);
  }
  shadow.read = stamp(thread);
}

Conflict Order::conflict(Conflict::Kind kind, Stamp other) const {
  Conflict conflict{kind, thread_of(other)};
  if (time_of(other) < block_start_) {
    const auto next = std::ranges::upper_bound(block_starts_, time_of(other));
    conflict.block = static_cast<std::size_t>(next - block_starts_.begin()) - 1;
  }
  return conflict;
}

std::optional<Conflict> Order::read(Shadow& shadow, unsigned thread, Space space) {
  if (!precedes(shadow.write, thread, space)) return conflict(Conflict::Kind::read_after_write, shadow.write);
  if (space == Space::shared && time_of(shadow.write) < block_start_) return Conflict{Conflict::Kind::never_written};
  note_reader(shadow, thread, space);
  return std::nullopt;
}

std::optional<Conflict> Order::write(Shadow& shadow, unsigned thread, Space space) {
  if (!precedes(shadow.write, thread, space)) return conflict(Conflict::Kind::write_after_write, shadow.write);
  if (!reads_precede(shadow, thread, space)) return conflict(Conflict::Kind::write_after_read, shadow.read);
  shadow.write = stamp(thread);
  shadow.read = 0;
  return std::nullopt;
}

std::optional<Conflict> Order::atomic(Shadow& shadow, unsigned thread, Space space) {
  publish(thread);
  if (space == Space::shared && time_of(shadow.write) < block_start_) return Conflict{Conflict::Kind::never_written};
  if ((shadow.write & kAtomic) == 0) {
    if (const auto wrong = write(shadow, thread, space)) return wrong;
  } else if (!reads_precede(shadow, thread, space)) {
    return conflict(Conflict::Kind::write_after_read, shadow.read);
  }
  shadow.write = stamp(thread) | kAtomic;
  shadow.read = 0;
  return std::nullopt;
}

}  // namespace moxie::cuda::emulator
