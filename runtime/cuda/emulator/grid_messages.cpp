// What GridRunner says when a check fails.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/cuda/emulator/grid_runner.h"

namespace moxie::cuda::emulator {
namespace {

constexpr const char* kOperations[] = {"__syncwarp",      "__shfl_sync",   "__shfl_up_sync", "__shfl_down_sync",
                                       "__shfl_xor_sync", "__ballot_sync", "__any_sync",     "__all_sync"};

std::string text(Triple index) { return fmt::format("({},{},{})", index.x, index.y, index.z); }
std::string array(Place place) {
  return fmt::format("{} {}", place.space == Space::shared ? "shared" : "global", place.name);
}

std::string outside_text(Place place, i64 count) {
  return fmt::format("subscript {} of {}, which has {} elements", place.index, array(place), count);
}

std::string too_long_text(const char* name, i64 count, i64 available) {
  return fmt::format("EXTENT({}, {}) goes beyond the allocation, which has room for {} elements", name, count,
                     available);
}

std::string misaligned_text(Place place, u32 alignment) {
  return fmt::format("{}[{}] is not aligned to {} bytes, as the type that it is cast to wants", array(place),
                     place.index, alignment);
}

}  // namespace

std::string operation(const WarpCall& call) {
  return fmt::format("{} (line {})", kOperations[static_cast<unsigned>(call.kind)], call.line);
}

std::string own_lane_text(const WarpCall& call, unsigned lane) {
  return fmt::format("calls {} with mask {:#010x}, which does not name its own lane {}", operation(call), call.mask,
                     lane);
}

std::string width_text(const WarpCall& call) {
  return fmt::format("calls {} with width {}, which is no power of 2 up to {}", operation(call), call.width, kWarp);
}

std::string GridRunner::name(unsigned thread) const { return text(indices_[thread]); }

/// Keeps the first failure. A thread at fault stops where it stands and is never resumed, so that its frames must own
/// nothing: texts are made in functions that have returned by then.
void GridRunner::fail(Result code, std::string what) {
  if (!failure_) failure_ = Failure{code, std::move(what), on_fiber_};
  if (on_fiber_) suspend();
}

std::string GridRunner::failure_text() const {
  if (!failure_->in_thread) return fmt::format("kernel {}: {}", kernel_, failure_->what);
  return fmt::format("kernel {}, block {}, thread {}: {}", kernel_, text(block_index), name(current_), failure_->what);
}

void GridRunner::outside(Place place, i64 count) { fail(kIllegalAddress, outside_text(place, count)); }
void GridRunner::too_long(const char* array, i64 count, i64 available) {
  fail(kIllegalAddress, too_long_text(array, count, available));
}
void GridRunner::misaligned(Place place, u32 alignment) { fail(kMisalignedAddress, misaligned_text(place, alignment)); }
void GridRunner::fail_stuck() { fail(kLaunchFailed, stuck_text()); }

void GridRunner::check(const std::optional<Conflict>& conflict, Place place) {
  if (conflict) fail(kLaunchFailed, conflict_text(*conflict, place));
}

std::string GridRunner::conflict_text(const Conflict& conflict, Place place) const {
  const std::string element = fmt::format("{}[{}]", array(place), place.index);
  if (conflict.kind == Conflict::Kind::never_written)
    return fmt::format("reads {}, which no thread of the block has written", element);
  const bool reads = conflict.kind == Conflict::Kind::read_after_write;
  const bool read = conflict.kind == Conflict::Kind::write_after_read;
  const std::string block = conflict.block ? " of block " + text(unravel(*conflict.block, grid_dim)) : "";
  return fmt::format("{} {}, which thread {}{} has {}, and {} orders the two", reads ? "reads" : "writes", element,
                     name(conflict.thread), block, read ? "read" : "written",
                     conflict.block ? "nothing" : "no barrier in between");
}

std::string GridRunner::whereabouts(unsigned thread) const {
  const Thread& state = threads_[thread];
  if (state.state == State::finished) return "has finished";
  if (state.state == State::at_barrier) return fmt::format("waits at __syncthreads (line {})", state.line);
  return fmt::format("waits at {}", operation(state.call));
}

/// Some thread waits for another that will never come.
std::string GridRunner::stuck_text() const {
  const auto first = [&](auto&& holds) {
    unsigned thread = 0;
    while (thread < threads_.size() && !holds(thread)) ++thread;
    return thread;
  };
  const State waiting = at_barrier_ > 0 ? State::at_barrier : State::at_warp;
  const unsigned waits = first([&](unsigned t) { return threads_[t].state == waiting; });
  const u32 mask = threads_[waits].call.mask;
  const auto awaited = [&](unsigned t) {
    return waiting == State::at_barrier || (t / kWarp == waits / kWarp && (mask >> (t % kWarp) & 1) != 0);
  };
  unsigned absent = first([&](unsigned t) { return awaited(t) && threads_[t].state == State::finished; });
  if (absent == threads_.size()) {
    absent = first([&](unsigned t) {
      return awaited(t) && threads_[t].state != State::unborn && whereabouts(t) != whereabouts(waits);
    });
  }
  const std::string other = absent == threads_.size() ? "another names other lanes in its mask"
                                                      : fmt::format("thread {} {}", name(absent), whereabouts(absent));
  return fmt::format("thread {} of block {} {} for good: {}", name(waits), text(block_index), whereabouts(waits),
                     other);
}

std::string GridRunner::source_text(unsigned thread, unsigned source) const {
  const WarpCall& call = threads_[thread].call;
  const bool named = (call.mask >> source & 1) != 0;
  const std::string reason =
      named ? "which the block does not have" : fmt::format("which mask {:#010x} does not name", call.mask);
  return fmt::format("{} gives thread {} the value of lane {}, {}", operation(call), name(thread), source, reason);
}

}  // namespace moxie::cuda::emulator
