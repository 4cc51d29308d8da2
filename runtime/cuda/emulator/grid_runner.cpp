#include "runtime/cuda/emulator/grid_runner.h"

#include <fmt/format.h>

#include <utility>

namespace moxie::cuda::emulator {
namespace {

constexpr i64 kSharedLimit = 48 * 1024;  // of a block that asked for no more

std::vector<Triple> indices_of(Triple extent) {
  std::vector<Triple> all(std::size_t{extent.x} * extent.y * extent.z);
  for (std::size_t k = 0; k < all.size(); ++k) all[k] = unravel(k, extent);
  return all;
}

void check_shape(const LaunchShape& shape) {
  const auto& [grid, block, shared_bytes] = shape;
  const u64 threads = u64{block.x} * block.y * block.z;
  if (threads == 0 || u64{grid.x} * grid.y * grid.z == 0) throw DriverError(kInvalidValue, "a launch without threads");
  if (threads > kMostThreads || block.z > 64) {
    throw DriverError(kInvalidValue, fmt::format("a block of {} x {} x {} threads; at most {} fit, 64 of them along z",
                                                 block.x, block.y, block.z, kMostThreads));
  }
  if (grid.x > 0x7fffffff || grid.y > 0xffff || grid.z > 0xffff) {
    throw DriverError(kInvalidValue,
                      fmt::format("a grid of {} x {} x {} blocks; at most 2^31-1 x 65535 x 65535 are allowed", grid.x,
                                  grid.y, grid.z));
  }
  if (shared_bytes > kSharedLimit)
    throw DriverError(kInvalidValue,
                      fmt::format("{} bytes of shared memory; a block has {}", shared_bytes, kSharedLimit));
}

}  // namespace

Triple unravel(u64 number, Triple extent) {
  const u64 rest = number / extent.x;
  return {static_cast<u32>(number % extent.x), static_cast<u32>(rest % extent.y), static_cast<u32>(rest / extent.y)};
}

void GridRunner::launch(const std::string& kernel, const moxie_emulation::EntryPoint& entry, const LaunchShape& shape,
                        void** parameters) {
  check_shape(shape);
  kernel_ = kernel;
  grid_dim = shape.grid;
  block_dim = shape.block;
  indices_ = indices_of(shape.block);
  dynamic_.resize(shape.shared_bytes);
  dynamic_shadow_.resize((shape.shared_bytes + moxie_emulation::kGranule - 1) / moxie_emulation::kGranule);
  failure_.reset();
  order_.begin_launch();
  entry.launch(parameters);
  if (failure_) throw DriverError(failure_->code, failure_text());
}

void GridRunner::run(void (*body)(void*), void* closure) {
  body_ = body;
  closure_ = closure;
  const u64 blocks = u64{grid_dim.x} * grid_dim.y * grid_dim.z;
  for (u64 k = 0; k < blocks && !failure_; ++k) run_block(unravel(k, grid_dim));
}

void GridRunner::run_block(Triple index) {
  block_index = index;
  order_.begin_block();
  block_start = order_.block_start();
  shared_bytes_ = static_cast<i64>(dynamic_.size());
  threads_.assign(indices_.size(), {});
  begun_ = finished_ = at_barrier_ = 0;
  waiting_lanes_.fill(0);
  ready_.clear();
  free_fibers_.clear();
  for (std::size_t k = 0; k < fibers_.size(); ++k) free_fibers_.push_back(k);
  while (!failure_ && finished_ < threads_.size()) step();
}

void GridRunner::step() {
  if (!ready_.empty()) {
    const unsigned thread = ready_.front();
    ready_.pop_front();
    become(thread);
    on_fiber_ = true;
    fibers_[threads_[thread].fiber]->resume();
    on_fiber_ = false;
  } else if (begun_ < threads_.size()) {
    start_fiber();
  } else {
    fail_stuck();
  }
}

void GridRunner::start_fiber() {
  if (free_fibers_.empty()) {
    free_fibers_.push_back(fibers_.size());
    fibers_.push_back(std::make_unique<Fiber>());
  }
  Fiber& fiber = *fibers_[free_fibers_.back()];
  fiber.start([](void* self) { static_cast<GridRunner*>(self)->work(); }, this);
  on_fiber_ = true;
  fiber.resume();
  on_fiber_ = false;
}

/// What a fiber does: threads that have not begun, one after the other.
void GridRunner::work() {
  const std::size_t fiber = free_fibers_.back();
  free_fibers_.pop_back();
  while (begun_ < threads_.size()) {
    threads_[begun_].fiber = fiber;
    become(begun_++);
    body_(closure_);
    finish();
  }
  free_fibers_.push_back(fiber);
  fibers_[fiber]->suspend();
}

void GridRunner::become(unsigned thread) {
  current_ = thread;
  threads_[thread].state = State::running;
  thread_index = indices_[thread];
  stamp = order_.stamp(thread);
}

void GridRunner::finish() {
  threads_[current_].state = State::finished;
  ++finished_;
  if (at_barrier_ > 0) fail_stuck();
}

void GridRunner::suspend() { fibers_[threads_[current_].fiber]->suspend(); }

void GridRunner::wait(State state, int line) {
  threads_[current_].state = state;
  threads_[current_].line = line;
}

void GridRunner::barrier(int line) {
  wait(State::at_barrier, line);
  if (++at_barrier_ < threads_.size()) {
    if (finished_ > 0) fail_stuck();
    return suspend();
  }
  for (const Thread& thread : threads_) {
    if (thread.line != line) return fail_stuck();
  }
  order_.barrier();
  at_barrier_ = 0;
  for (unsigned k = 0; k < threads_.size(); ++k) {
    if (k != current_) ready_.push_back(k);
  }
  become(current_);
}

void GridRunner::fence() {
  order_.fence(current_);
  become(current_);
}

Region GridRunner::resolve(u64 pointer, u32 parameter) {
  if (pointer == 0) return {};
  const Region region = memory_.region(pointer);
  if (region.data == nullptr)
    fail(kIllegalAddress, fmt::format("parameter {} is {:#x}, which is no device memory", parameter, pointer));
  return region;
}

void GridRunner::claim_shared(const char* array, i64 bytes) {
  shared_bytes_ += bytes;
  if (shared_bytes_ > kSharedLimit) {
    fail(kLaunchOutOfResources, fmt::format("shared array {} brings the block to {} bytes of shared memory; it has {}",
                                            array, shared_bytes_, kSharedLimit));
  }
}

Region GridRunner::dynamic_shared() {
  return {dynamic_.data(), dynamic_shadow_.data(), static_cast<i64>(dynamic_.size())};
}

}  // namespace moxie::cuda::emulator
