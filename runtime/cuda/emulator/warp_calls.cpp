// Warp operations: lanes wait until all that the mask names have come to the same one.
#include <bit>

#include "runtime/cuda/emulator/grid_runner.h"

namespace moxie::cuda::emulator {
namespace {

using moxie_emulation::WarpKind;

unsigned lane_of(unsigned thread) { return thread % kWarp; }
u32 bit(unsigned lane) { return u32{1} << lane; }

bool same_operation(const WarpCall& a, const WarpCall& b) {
  return a.kind == b.kind && a.mask == b.mask && a.line == b.line;
}

/// The lane whose value a shuffle gives to `lane`, by the rules of the CUDA C++ Programming Guide.
unsigned source_lane(const WarpCall& call, unsigned lane) {
  const unsigned begin = lane & ~(call.width - 1);
  const unsigned end = begin + call.width;
  switch (call.kind) {
    case WarpKind::shuffle:
      return begin | (call.argument & (call.width - 1));
    case WarpKind::shuffle_up:
      return lane >= begin + call.argument ? lane - call.argument : lane;
    case WarpKind::shuffle_down:
      return lane + call.argument < end ? lane + call.argument : lane;
    default:
      return (lane ^ call.argument) < end ? lane ^ call.argument : lane;
  }
}

}  // namespace

u32 GridRunner::existing_lanes(unsigned warp) const {
  const std::size_t lanes = threads_.size() - std::size_t{warp} * kWarp;
  return lanes >= kWarp ? ~u32{0} : bit(static_cast<unsigned>(lanes)) - 1;
}

u32 GridRunner::active_lanes() {
  const unsigned warp = current_ / kWarp;
  u32 lanes = existing_lanes(warp);
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes & bit(lane)) != 0 && threads_[warp * kWarp + lane].state == State::finished) lanes &= ~bit(lane);
  }
  return lanes;
}

u64 GridRunner::warp(const WarpCall& call) {
  const unsigned warp = current_ / kWarp;
  const u32 lanes = call.mask & existing_lanes(warp);
  wait(State::at_warp, call.line);
  threads_[current_].call = call;
  if ((call.mask & bit(lane_of(current_))) == 0) {
    fail(kLaunchFailed, own_lane_text(call, lane_of(current_)));
  } else if (!std::has_single_bit(call.width) || call.width > kWarp) {
    fail(kLaunchFailed, width_text(call));
  }
  waiting_lanes_[warp] |= bit(lane_of(current_));
  if (have_met(warp, lanes, call))
    complete(warp, lanes);
  else
    suspend();
  return threads_[current_].result;
}

bool GridRunner::have_met(unsigned warp, u32 lanes, const WarpCall& call) const {
  if ((waiting_lanes_[warp] & lanes) != lanes) return false;
  for (u32 rest = lanes; rest != 0; rest &= rest - 1) {
    if (!same_operation(threads_[warp * kWarp + static_cast<unsigned>(std::countr_zero(rest))].call, call))
      return false;
  }
  return true;
}

void GridRunner::complete(unsigned warp, u32 lanes) {
  for (u32 rest = lanes; rest != 0; rest &= rest - 1) {
    const unsigned thread = warp * kWarp + static_cast<unsigned>(std::countr_zero(rest));
    threads_[thread].result = result(thread, lanes);
    if (thread != current_) ready_.push_back(thread);
  }
  waiting_lanes_[warp] &= ~lanes;
  order_.meet(warp, lanes, lanes == existing_lanes(warp));
  become(current_);
}

u64 GridRunner::result(unsigned thread, u32 lanes) {
  const WarpCall& call = threads_[thread].call;
  const unsigned first = thread - lane_of(thread);
  if (call.kind == WarpKind::sync) return 0;
  if (call.kind < WarpKind::ballot) {
    const unsigned source = source_lane(call, lane_of(thread));
    if ((lanes & bit(source)) != 0) return threads_[first + source].call.value;
    fail(kLaunchFailed, source_text(thread, source));
    return 0;
  }
  u32 votes = 0;
  for (u32 rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if (threads_[first + lane].call.value != 0) votes |= bit(lane);
  }
  if (call.kind == WarpKind::ballot) return votes;
  return call.kind == WarpKind::any ? votes != 0 : votes == lanes;
}

}  // namespace moxie::cuda::emulator
